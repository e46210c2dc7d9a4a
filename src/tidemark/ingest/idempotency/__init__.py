"""What `idempotency.mode` adds to the ledger: fingerprints, upserts, MERGE."""
