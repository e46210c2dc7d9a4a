"""The vocabulary every other room shares: records, marks, routes, failure codes, errors.

Imports nothing of ours and nothing heavy, so that the listener and the CLI can use it without Spark.
"""
