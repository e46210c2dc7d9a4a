"""Accepted rows into the table, steps 1 to 3 of the batch; `modes` decides how they are written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from pyspark.sql import DataFrame, Observation

from tidemark.config.stream import Mode
from tidemark.contract.errors import RestartStream
from tidemark.contract.failpoints import failpoint
from tidemark.ingest.batch.conflicts import report_conflicts
from tidemark.ingest.batch.counts import BatchCounts, batch_counts_of, dead_letters_carried, observe, recount
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.batch.refusals import check_constraints, check_readable
from tidemark.ingest.idempotency.modes import write
from tidemark.sink.append import Committed
from tidemark.source.reader import most_tasks


@dataclass(frozen=True)
class Landed:
    """The result of a batch: its ledger commit, None where it made none, and the counts of its records.

    `failures`: dead letters by failure code, where they are published already. `conflicts`: records whose
    coordinates the table has with other content.
    """

    batch_counts: BatchCounts
    committed: Committed | None = None
    seconds: float = 0.0
    failures: Mapping[str, int] | None = None
    conflicts: int = 0


@dataclass(frozen=True)
class AcceptedRows:
    """The inputs of one batch's append. `routed`: classified records with `is_new`."""

    plan: BatchPlan
    ledger: HeldLedger
    routed: DataFrame
    batch_id: int
    bounds: Bounds
    new_offsets: NewOffsets

    def land(self) -> Landed:
        """Append them in one ledger commit, made even where nothing was accepted: marks always advance.

        Raises RetriesExhausted, RestartStream where the new offsets have to be decided again, and what
        `sink.append.append` raises and a retry does not help.
        """
        plan = self.plan
        attempts = count(1)
        began = time.monotonic()
        committed, batch_counts = plan.retry.call(
            lambda: self._attempt(next(attempts)), step=f"append to {plan.table}"
        )
        failpoint("after-append")
        self.ledger.committed(committed)
        seconds = time.monotonic() - began
        if batch_counts is None or not self._is_complete(batch_counts, committed):
            batch_counts = recount(self.routed)
        if plan.idempotency.merge_keys:
            # Every version is accepted, though only an entity's newest is a row.
            committed = replace(committed, rows=batch_counts.new_accepted)
        known = batch_counts.new_accepted - committed.rows
        conflicts = report_conflicts(self.routed, plan, self.bounds, self.new_offsets, known)
        return Landed(batch_counts, committed, seconds, conflicts=conflicts)

    def _is_complete(self, observed: BatchCounts, committed: Committed) -> bool:
        """Whether each record was observed once. Where an executor died between two stages, the first runs again
        and is observed twice. A MERGE or a join may read a part of its source only: Spark 4.0 reads none of it
        for an empty table. A count is certain then only where every offset of the batch has a record.
        """
        adds_all = self.plan.idempotency.mode is not Mode.MERGE
        if adds_all and not self.new_offsets.uncertain:
            return observed.new_accepted == committed.rows and observed.read <= self.bounds.offsets
        return observed.read == self.bounds.offsets

    def _attempt(self, number: int) -> tuple[Committed, BatchCounts | None]:
        """Each attempt has its own token, DataFrame and observation: a failed one leaves a partial count."""
        plan, ledger = self.plan, self.ledger
        if number > 1:
            decided = ledger.state.marks
            ledger.refresh(self.routed.sparkSession)
            if ledger.state.marks != decided:
                # A commit whose attempt had been given up did arrive.
                raise RestartStream("the marks moved between two attempts of one batch")
        ledger.doubt()
        observation = Observation()
        carried = dead_letters_carried(plan.processing.rejected_in_memory, self._tasks())
        observed = observe(self.routed, observation, carried=carried)
        failpoint("before-append")
        ledger_commit = ledger.next_commit(self.batch_id, number, self.bounds)
        try:
            committed = write(plan, observed, ledger_commit, self.bounds, self.new_offsets)
        except Exception as error:
            check_readable(error, plan, self.bounds)
            check_constraints(error, self.routed.sparkSession, plan, self.bounds)
            raise
        return committed, batch_counts_of(observation)

    def _tasks(self) -> int:
        """The highest number of tasks in which the batch lands."""
        processing = self.plan.processing
        tasks = max(len(self.bounds.ranges), processing.min_partitions or 0, 2)
        most = most_tasks(self.routed.sparkSession, processing)
        return tasks if most is None else min(tasks, most)
