"""The Delta table with its ledger."""
