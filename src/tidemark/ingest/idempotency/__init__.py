"""The modes beyond the ledger: fingerprints, upserts, MERGE."""
