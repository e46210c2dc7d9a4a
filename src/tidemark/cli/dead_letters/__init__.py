"""`tidemark dead-letters`."""
