"""The console: server-rendered pages about streams, dead letters and report requests."""
