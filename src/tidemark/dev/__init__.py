"""What a developer's machine needs and a cluster does not: a broker of its own, and sample records."""
