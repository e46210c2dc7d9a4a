"""The main job: where a query starts, what a batch does, and how queries are supervised."""
