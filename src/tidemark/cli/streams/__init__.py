"""Commands about streams: ingest them, look at them, move their marks, maintain their tables."""
