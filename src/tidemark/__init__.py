"""Tidemark lands Kafka topics in Delta Lake tables, each record exactly once, and loses none."""

__version__ = "0.1.0"
