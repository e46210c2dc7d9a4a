"""Where finished reports are kept, under the hash of their content."""
