"""The facts of one failure, taken down where it was caught; the exception itself is never kept."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """How far a failure reaches, which decides what becomes of the record."""

    RECORD = "RECORD"
    """The record is bad: retrying it cannot help others, and may not help it."""
    DEPENDENCY = "DEPENDENCY"
    """Something it needs is down and may heal."""
    PROCESS = "PROCESS"
    """Configuration, credentials, a bug: a person must act, the listener stops."""


@dataclass(frozen=True)
class Failure:
    """`retriable`: another attempt may succeed. `deferred`: not an attempt at all (an open breaker)."""

    exception_class: str
    message: str
    scope: Scope = Scope.RECORD
    retriable: bool = True
    deferred: bool = False
    retry_after: float | None = None
    cause_class: str | None = None
    condition: str | None = None
    sqlstate: str | None = None
    category: str = "UNCLASSIFIED"
