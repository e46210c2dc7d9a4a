"""The DLQ table: each dead letter once, and what became of it."""
