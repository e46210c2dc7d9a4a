"""Accepted rows into the table, steps 1 to 3 of the batch (DESIGN §2); here a mode says how it writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.config.stream import Mode
from tidemark.contract import records
from tidemark.contract.errors import RestartStream
from tidemark.contract.own_commit import OwnCommit
from tidemark.contract.routes import Route
from tidemark.pipeline.batch_plan import BatchPlan
from tidemark.pipeline.census import Census, census_of, count_again, letters_carried, observe
from tidemark.pipeline.fault_points import reach
from tidemark.pipeline.held_ledger import HeldLedger
from tidemark.pipeline.novelty import Bounds, Novelty, not_landed
from tidemark.sink.append import Committed, append

Write = Callable[[DataFrame, TableRef, OwnCommit], Committed]
"""Makes one own commit of the rows, or raises; see `sink.append.append` for what it guarantees."""


@dataclass(frozen=True)
class Way:
    """How a mode writes. `adds_all`: every row it is given becomes a row of the table, so that the commit's
    own count can check the observed one.
    """

    write: Write
    adds_all: bool = True


WAYS = {Mode.KAFKA_NATIVE: Way(append)}


@dataclass(frozen=True)
class Landed:
    """The own commit of a batch and what its pass over the records counted."""

    committed: Committed
    census: Census
    seconds: float


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
    novelty: Novelty
    _attempts: int = 0

    def land(self) -> Landed:
        """Land them in one own commit, made even where nothing was accepted: marks always advance.

        Raises RetriesExhausted, RestartStream where what is new has to be decided again, and what
        `sink.append.append` raises that no retry helps.
        """
        plan = self.plan
        commits = plan.retry.for_commits(plan.processing.max_commit_retries)
        began = time.monotonic()
        committed, census = plan.retry.call(
            lambda: commits.call(self._attempt, step="commit"), step=f"append to {plan.table}"
        )
        reach("after-append")
        self.ledger.committed(committed)
        seconds = time.monotonic() - began
        exact = WAYS[plan.mode].adds_all and not self.novelty.undecided
        if census is None or (exact and census.novel_accepted != committed.rows):
            census = count_again(self.routed)
        return Landed(committed, census, seconds)

    def _attempt(self) -> tuple[Committed, Census | None]:
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
        tasks = max(len(self.bounds.partitions), plan.processing.min_partitions or 0, 2)
        observation = Observation()
        carried = letters_carried(plan.processing.rejected_in_memory, tasks)
        watched = observe(self.routed, observation, carried=carried)
        accepted = watched.where((F.col(records.ROUTE) == Route.ACCEPTED.value) & F.col("novel"))
        rows = not_landed(accepted, plan.table, plan.topic.id, self.novelty).select("row.*")
        reach("before-append")
        own = ledger.next_commit(self.batch_id, self._attempts, self.bounds)
        committed = WAYS[plan.mode].write(rows, plan.table, own)
        return committed, census_of(observation)
