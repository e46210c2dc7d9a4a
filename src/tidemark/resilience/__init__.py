"""What Tidemark does on a bad day: reads failures, judges them, retries, and leaves a broken place alone."""
