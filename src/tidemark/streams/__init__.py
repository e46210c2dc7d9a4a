"""A stream's table, resolved: its target, the generations of its ledger, how far it is complete."""
