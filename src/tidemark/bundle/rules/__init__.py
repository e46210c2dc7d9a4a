"""What is checked of the bundle, one module a subject."""
