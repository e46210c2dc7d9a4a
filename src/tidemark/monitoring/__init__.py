"""What an operator sees of the running system: logs, metrics, health and the console."""
