"""The console: one server-rendered page family over what `pipeline`, `reports` and `observe` know."""
