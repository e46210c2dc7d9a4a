"""CSV: its fast lane and its strict lane."""
