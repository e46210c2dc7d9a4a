"""`tidemark demo`: records, tables, crashes, and a check of every record."""
