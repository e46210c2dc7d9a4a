"""The main job: where a query starts, what a batch does, and who looks after the queries."""
