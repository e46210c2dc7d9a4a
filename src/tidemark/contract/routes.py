"""The outcome of a record. Every record read has exactly one route."""

from __future__ import annotations

from enum import StrEnum


class Route(StrEnum):
    """Per batch: read = accepted + rejected + skipped + duplicate."""

    ACCEPTED = "accepted"
    """A row in the table."""
    REJECTED = "rejected"
    """A dead letter, with unchanged bytes."""
    SKIPPED = "skipped"
    """A tombstone under `tombstones: skip`: only counted."""
    DUPLICATE = "duplicate"
    """Landed already: below the marks, or the same content under `fingerprint`."""
