"""The ledger as a running query holds it: read again where it may have moved, and its next commit."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from tidemark.contract.errors import RestartStream
from tidemark.contract.failpoints import failpoint
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.sink.append import Committed, check_still_ours, state_after
from tidemark.sink.ledger import LedgerState, in_generation, read_state
from tidemark.sink.log_files import log_of

_FRESH_S = 2.0


@dataclass
class HeldLedger:
    """What this run knows of its table's marks. Each query has one; whoever changes it holds `busy`.

    `completed`: how far its batches are landed with their dead letters acknowledged. `dead_lettered`: the end
    of the batches that became dead letters as a whole while the table was unavailable, from the marks
    `dead_lettered_from` on; no gap, though beyond the marks. `replayed`: the dead letters of the jumps up to
    this seq are replayed. `query` identifies the query within the run: a batch that runs again after a restart
    must not take a late commit of the former query for its own. `read_at`: when `state` was last read from
    the log, by the monotonic clock of this process.
    """

    plan: BatchPlan
    state: LedgerState
    counts: Mapping[str, int] = field(default_factory=dict)
    completed: Marks = field(default_factory=Marks)
    dead_lettered: Marks = field(default_factory=Marks)
    dead_lettered_from: Marks = field(default_factory=Marks)
    replayed: int = 0
    query: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    busy: threading.Lock = field(default_factory=threading.Lock, repr=False)
    read_at: float = 0.0

    def __getstate__(self) -> dict[str, Any]:
        # Another process has another clock.
        return {name: value for name, value in vars(self).items() if name not in ("busy", "read_at")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, busy=threading.Lock(), read_at=0.0)

    def refresh(self, spark: SparkSession) -> None:
        """Read the log, unless it was read in the last two seconds.

        Raises RestartStream after a RESTORE, Fenced if another run committed, LedgerError if the table
        was dropped and created again.
        """
        if time.monotonic() - self.read_at < _FRESH_S:
            return
        failpoint("read-log")
        self.compare(read_state(log_of(spark, self.plan.table)))
        self.read_at = time.monotonic()

    def compare(self, read: LedgerState) -> None:
        """Take over the state that was read, if the table is still this run's. Raises as `refresh` does."""
        known = self.state
        state = in_generation(read, self.plan.topic.id)
        check_still_ours(self.plan.table, known, state, run=self.plan.run)
        self.state = state.published_at_least(known.published.highest(self.completed))

    def doubt(self) -> None:
        """A commit may be under way: the next `refresh` reads the log."""
        self.read_at = 0.0

    def check_joins(self, bounds: Bounds) -> None:
        """Raises RestartStream for a batch that starts beyond the marks: it would claim records that never
        landed. What this query itself dead-lettered is not a gap.
        """
        joined = self.state.marks
        if joined >= self.dead_lettered_from:
            joined = joined.highest(self.dead_lettered)
        gaps = {p: at for p, at in joined.behind(bounds.start).items() if p in bounds.end}
        if gaps:
            raise RestartStream(
                f"the batch does not join the marks of {self.plan.table}: {gaps} (marks, start)"
            )

    def next_commit(
        self, batch: int | str, attempt: int, bounds: Bounds, *, kind: CommitKind = CommitKind.BATCH
    ) -> LedgerCommit:
        """The ledger commit of a batch: its marks are the batch's ends, never lower than before. Offsets that
        were dead-lettered below the batch are recorded as jumped.
        """
        state = self.state
        marks = state.marks.highest(bounds.end)
        jumped = state.marks.behind(bounds.start)
        token = f"{self.plan.run}/{batch}/{self.query}-{attempt}"
        return replace(
            state.next_commit(kind, stream=self.plan.stream, topic_id=self.plan.topic.id, token=token),
            marks=marks,
            published=state.published.highest(self.completed.lowest(marks)),
            high_water=state.high_water.highest(marks),
            checkpoint=self.plan.checkpoint_id,
            counts=self.counts,
            jumped=jumped,
            replay_due=state.seq + 1 if jumped else self.replay_due,
        )

    @property
    def unrecorded(self) -> Bounds | None:
        """What is dead-lettered and not recorded by a commit yet, as bounds of an empty batch behind it."""
        if self.dead_lettered <= self.state.marks:
            return None
        end = self.state.marks.highest(self.dead_lettered)
        return Bounds(end, end)

    @property
    def replay_due(self) -> int:
        """`LedgerCommit.replay_due`, or 0 where it is replayed."""
        due = self.state.newest.replay_due if self.state.newest else 0
        return due if due > self.replayed else 0

    def committed(self, commit: Committed) -> None:
        self.state = state_after(commit, self.state)
        self.read_at = time.monotonic()

    def published_up_to(self, end: Marks, *, landed: bool = True) -> None:
        """A batch is completed up to `end`; the next commit records it. Not `landed`: as dead letters alone."""
        self.completed = self.completed.highest(end)
        if not landed:
            if self.unrecorded is None:
                self.dead_lettered_from = self.state.marks
            self.dead_lettered = self.dead_lettered.highest(end)
        self.state = self.state.published_at_least(self.completed)
