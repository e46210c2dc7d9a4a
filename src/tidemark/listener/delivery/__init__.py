"""At-least-once delivery of one assignment: batches, offsets, verdicts of executions, dead letters."""
