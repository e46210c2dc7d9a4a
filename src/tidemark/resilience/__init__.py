"""Failures: error info, classification, retries, and circuit breakers."""
