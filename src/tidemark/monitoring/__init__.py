"""Logs, metrics and health of the running system, and their HTTP endpoints."""
