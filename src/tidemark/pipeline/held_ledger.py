"""The ledger as a running query holds it: read again where it may have moved, and what it commits next."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tidemark.contract.errors import RestartStream
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind, OwnCommit
from tidemark.pipeline.batch_plan import BatchPlan
from tidemark.pipeline.novelty import Bounds
from tidemark.sink.append import Committed, check_still_ours, state_after
from tidemark.sink.ledger import LedgerState, in_generation, read_state
from tidemark.sink.table_log import DeltaLog

_FRESH_S = 2.0


@dataclass
class HeldLedger:
    """What this run knows of its table's marks. One query holds one, and nobody else changes it.

    `query` tells the queries of a run apart: a batch that runs again after a restart of the query must not
    take a late commit of its former self for its own.
    """

    plan: BatchPlan
    state: LedgerState
    counts: Mapping[str, int] = field(default_factory=dict)
    query: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    _read_at: float = 0.0

    def refresh(self, spark: SparkSession) -> None:
        """Read the log, unless that was done a moment ago.

        Raises RestartStream after a RESTORE, Fenced if another run committed, LedgerError if the table
        was dropped and created again.
        """
        if time.monotonic() - self._read_at < _FRESH_S:
            return
        known = self.state
        state = in_generation(read_state(DeltaLog(spark, self.plan.table)), self.plan.topic.id)
        check_still_ours(self.plan.table, known, state, run=self.plan.run)
        self.state = state.done_at_least(known.done)
        self._read_at = time.monotonic()

    def doubt(self) -> None:
        """Something is under way that may move it: the next `refresh` reads the log."""
        self._read_at = 0.0

    def check_joins(self, bounds: Bounds) -> None:
        """No gap: a batch that starts beyond the marks would claim records that never landed."""
        gaps = {
            p: (self.state.marks.at(p), bounds.start.at(p))
            for p in bounds.partitions
            if bounds.start.at(p) > self.state.marks.at(p)
        }
        if gaps:
            raise RestartStream(
                f"the batch does not join the marks of {self.plan.table}: {gaps} (marks, start)"
            )

    def next_commit(self, batch_id: int, attempt: int, bounds: Bounds) -> OwnCommit:
        """The own commit of a batch: its marks are the batch's ends, never lower than before."""
        state = self.state
        marks = state.marks.highest(bounds.end)
        return OwnCommit(
            kind=CommitKind.BATCH,
            stream=self.plan.stream,
            topic_id=self.plan.topic.id,
            token=f"{self.plan.run}/{batch_id}/{self.query}-{attempt}",
            seq=state.seq + 1,
            base=state.version,
            marks=marks,
            done=state.done,
            ceiling=state.ceiling.highest(marks),
            checkpoint=self.plan.checkpoint_id,
            counts=self.counts,
        )

    def committed(self, commit: Committed) -> None:
        self.state = state_after(commit, self.state)
        self._read_at = time.monotonic()

    def done_up_to(self, end: Marks) -> None:
        """The dead letters are complete up to there; the next commit says so."""
        self.state = self.state.done_at_least(end)
