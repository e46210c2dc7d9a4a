"""The `tidemark` command: one module per sub-command, loaded when it is called."""
