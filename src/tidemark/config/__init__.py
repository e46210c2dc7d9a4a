"""The configuration as frozen, validated values. All faults of a file are reported at once."""
