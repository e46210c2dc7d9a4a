"""`tidemark demo`: from nothing to tables, with crashes and a check of every record."""
