"""Tidemark lands Kafka topics in Delta Lake tables, each record exactly once, and loses none."""

from __future__ import annotations

__version__ = "0.1.0"
