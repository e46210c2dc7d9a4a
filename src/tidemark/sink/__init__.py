"""Where records end: the Delta table with its ledger, and the dead letter queue."""
