"""The `tidemark` command: one file each sub-command, loaded when it is called."""
