"""The decisions that the built-in rules share."""

from __future__ import annotations

from tidemark.contract.backoff import Backoff
from tidemark.contract.failures import Action, Decision, Scope

COMMIT_BACKOFF = Backoff(base=0.1)
"""`fault-tolerance.md`, Handle Concurrent Writes: from 100 ms, doubled."""


def retry(
    category: str,
    *,
    max_retries: int | None = None,
    then: Action | None = None,
    backoff: Backoff | None = None,
) -> Decision:
    """A dependency that may recover; counts for its breaker."""
    return Decision(
        category,
        Action.RETRY,
        Scope.DEPENDENCY,
        counts_for_breaker=True,
        max_retries=max_retries,
        backoff=backoff,
        then=then,
    )


def stop(category: str) -> Decision:
    return Decision(category, Action.STOP, Scope.PROCESS)


def dead_letter(category: str) -> Decision:
    return Decision(category, Action.DLQ, Scope.RECORD)


NETWORK = retry("NETWORK")
THROTTLED = retry("THROTTLED")
UNAVAILABLE = retry("UNAVAILABLE")
MISSING_FILE = retry("MISSING_FILE", max_retries=1, then=Action.STOP)
MISSING_TOPIC = retry("MISSING_TOPIC", then=Action.STOP)
EXPIRED = retry("EXPIRED_CREDENTIALS", max_retries=1, then=Action.STOP)

LOCKED = Decision("LOCKED", Action.RETRY, Scope.DEPENDENCY, then=Action.RETRY)
"""Waited for as long as it takes: the table is there, and another writer has its turn."""

CONFLICT = Decision("CONFLICT", Action.RETRY_OP, Scope.DEPENDENCY, backoff=COMMIT_BACKOFF)
TABLE_CHANGED = Decision("CONFLICT", Action.RETRY_OP, Scope.DEPENDENCY, max_retries=2, backoff=COMMIT_BACKOFF)
COMMITTED = Decision("COMMITTED", Action.TREAT_AS_SUCCESS, Scope.DEPENDENCY)
RESTART = Decision("RESTART", Action.RESTART_QUERY, Scope.DEPENDENCY)
SHUTDOWN = Decision("SHUTDOWN", Action.SHUTDOWN, Scope.PROCESS)

CREDENTIALS = stop("CREDENTIALS")
MISSING = stop("MISSING")
CONFIGURATION = stop("CONFIGURATION")
SCHEMA = stop("SCHEMA")
FENCED = stop("FENCED")
DATA_LOSS = stop("DATA_LOSS")
INTERNAL = stop("INTERNAL")

MALFORMED = dead_letter("MALFORMED")
INVALID = dead_letter("INVALID")
BUG = dead_letter("BUG")
