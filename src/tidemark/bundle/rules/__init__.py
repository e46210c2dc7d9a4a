"""The rules of the bundle, one module per subject."""
