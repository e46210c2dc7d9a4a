"""Monitoring of a running ingest: metrics, health, lag, the metrics table."""
