"""Report requests, their status rows, and the claims of workers."""
