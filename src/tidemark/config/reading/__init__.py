"""Reads a configuration: files, layers, names from the environment, every fault at once."""
