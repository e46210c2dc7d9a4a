"""The DLQ table: each dead letter once, and its status."""
