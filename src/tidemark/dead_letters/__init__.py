"""Dead letters: the DLQ topic, the DLQ table, their reading and their replay."""
