"""For development only: a local broker, sample records, and the demo."""
