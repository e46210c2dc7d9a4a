"""From a record's bytes to its route: decode, validate, classify. No clock, and no I/O but the schema registry's, which
only `widen` and `with_registered` ask.

`decode_plan` fixes what a stream's records are decoded with, `transform` does it, `explain` does it for
single payloads, for people who debug.
"""

from __future__ import annotations

from tidemark.transform.classify import SCHEMA_ID, transform
from tidemark.transform.explain import Explained, explain
from tidemark.transform.plan import DecodePlan, decode_plan
from tidemark.transform.registry import SchemaRegistry, unknown_ids, widen, with_registered

__all__ = [
    "SCHEMA_ID",
    "DecodePlan",
    "Explained",
    "SchemaRegistry",
    "decode_plan",
    "explain",
    "transform",
    "unknown_ids",
    "widen",
    "with_registered",
]
