"""The configuration as frozen, validated values. Everything wrong with a file is reported at once."""
