"""Where a query starts, by the ledger, the topic, the checkpoint and the table."""
