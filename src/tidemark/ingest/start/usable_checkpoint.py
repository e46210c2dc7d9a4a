"""The checkpoint that a start may continue: the one of the newest ledger commit, if it joins the marks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import structlog

from tidemark.contract.marks import Marks
from tidemark.ingest.idempotency.fingerprints import memory_problem
from tidemark.sink.ledger import LedgerState
from tidemark.source.checkpoint import Checkpoint
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Usable:
    """`initial`: the offsets at which its first batch started."""

    identifier: str
    checkpoint: Checkpoint
    initial: Marks


def usable_checkpoint(target: Target, state: LedgerState, now: datetime) -> Usable | None:
    """The checkpoint that the newest ledger commit names, if Spark can start from it and it joins the marks.

    A checkpoint of another mode is never taken: each change of the mode starts a fresh one.
    """
    assert state.newest is not None
    named = state.newest.checkpoint
    if not named.startswith(f"{target.stream.idempotency.mode.value}-"):
        return None
    checkpoint = target.checkpoint(named)
    position, initial = checkpoint.position(), checkpoint.initial()
    if position is None or initial is None:
        problem: str | None = "missing or damaged"
    elif not position.end <= state.marks:
        problem = "ahead of the marks"
    else:
        now_ms = round(now.timestamp() * 1000)
        options = target.stream.idempotency
        problem = memory_problem(checkpoint, options, now_ms=now_ms) if target.remembers else None
        if problem is None:
            return Usable(named, checkpoint, initial)
    log.warning(
        "checkpoint cannot be used; resuming from the table's marks",
        stream=target.name,
        checkpoint=checkpoint.path,
        why=problem,
    )
    return None
