"""Where a query starts: the ledger, the topic, the checkpoint and the table brought together."""
