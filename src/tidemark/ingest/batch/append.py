"""Accepted rows into the table, steps 1 to 3 of the batch; `modes` says how they are written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Observation

from tidemark.config.stream import Mode
from tidemark.contract.errors import RestartStream
from tidemark.contract.failpoints import failpoint
from tidemark.ingest.batch.conflicts import report_conflicts
from tidemark.ingest.batch.counts import BatchCounts, batch_counts_of, dead_letters_carried, observe, recount
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.batch.unreadable import check_readable
from tidemark.ingest.batch.violated import check_constraints
from tidemark.ingest.idempotency.modes import write
from tidemark.sink.append import Committed
from tidemark.source.reader import most_tasks


@dataclass(frozen=True)
class Landed:
    """What a batch came to: its ledger commit, None where it made none, and the count of its records.

    `failures` counts the dead letters per failure code where they are published already. `conflicts`:
    records that the table has with other content.
    """

    batch_counts: BatchCounts
    committed: Committed | None = None
    seconds: float = 0.0
    failures: Mapping[str, int] | None = None
    conflicts: int = 0


@dataclass
class AcceptedRows:
    """The accepted rows of one batch on their way into the table.

    In: classified records with `novel` (`novelty.with_novelty`).
    """

    plan: BatchPlan
    ledger: HeldLedger
    routed: DataFrame
    batch_id: int
    bounds: Bounds
    new_offsets: NewOffsets
    _attempts: int = 0

    def land(self) -> Landed:
        """Land them in one ledger commit, made even where nothing was accepted: marks always advance.

        Raises RetriesExhausted, RestartStream where what is new has to be decided again, and what
        `sink.append.append` raises that no retry helps.
        """
        plan = self.plan
        began = time.monotonic()
        committed, batch_counts = plan.retry.call(self._attempt, step=f"append to {plan.table}")
        failpoint("after-append")
        self.ledger.committed(committed)
        seconds = time.monotonic() - began
        adds_all = plan.idempotency.mode is not Mode.MERGE
        exact = adds_all and not self.new_offsets.uncertain
        # Where an executor died between two stages, the first is run again and observed twice.
        if (
            batch_counts is None
            or (exact and batch_counts.new_accepted != committed.rows)
            or batch_counts.read > self.bounds.offsets
        ):
            batch_counts = recount(self.routed)
        if plan.idempotency.merge_keys:
            # Every version is accepted, though only an entity's newest is a row.
            committed = replace(committed, rows=batch_counts.new_accepted)
        known = batch_counts.new_accepted - committed.rows
        conflicts = report_conflicts(self.routed, plan, self.bounds, self.new_offsets, known)
        return Landed(batch_counts, committed, seconds, conflicts=conflicts)

    def _attempt(self) -> tuple[Committed, BatchCounts | None]:
        """Each attempt has its own token, DataFrame and observation: a failed one leaves a partial count."""
        plan, ledger = self.plan, self.ledger
        if self._attempts:
            decided = ledger.state.marks
            ledger.refresh(self.routed.sparkSession)
            if ledger.state.marks != decided:
                # A commit that was given up did arrive: what is new has to be decided again.
                raise RestartStream("the marks moved between two attempts of one batch")
        self._attempts += 1
        ledger.doubt()
        observation = Observation()
        carried = dead_letters_carried(plan.processing.rejected_in_memory, self._tasks())
        watched = observe(self.routed, observation, carried=carried)
        failpoint("before-append")
        ledger_commit = ledger.next_commit(self.batch_id, self._attempts, self.bounds)
        try:
            committed = write(plan, watched, ledger_commit, self.bounds, self.new_offsets)
        except Exception as error:
            check_readable(error, plan.stream)
            check_constraints(error, self.routed.sparkSession, plan, self.bounds)
            raise
        return committed, batch_counts_of(observation)

    def _tasks(self) -> int:
        """In how many tasks the batch lands, at most."""
        processing = self.plan.processing
        tasks = max(len(self.bounds.partitions), processing.min_partitions or 0, 2)
        most = most_tasks(self.routed.sparkSession, processing)
        return tasks if most is None else min(tasks, most)
