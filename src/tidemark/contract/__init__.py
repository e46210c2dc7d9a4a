"""The vocabulary that every other package shares: records, marks, routes, failure codes, errors.

It imports no other package of Tidemark and no large library, so that the listener and the CLI use it
without Spark.
"""
