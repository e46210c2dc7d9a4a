"""The soak: load with random faults, and an audit at the end."""
