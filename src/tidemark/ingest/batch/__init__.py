"""What one micro-batch does: `handler` has the order of effects from top to bottom."""
