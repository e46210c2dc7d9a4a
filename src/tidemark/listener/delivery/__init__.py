"""At-least-once delivery of one assignment: batches, offsets, results of executions, dead letters."""
