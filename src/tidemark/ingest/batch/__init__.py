"""One micro-batch: `handler` has the order of effects from top to bottom."""
