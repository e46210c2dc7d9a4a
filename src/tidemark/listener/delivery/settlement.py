"""Turns the result of an execution into what happens next: pure bookkeeping, no Kafka."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidemark.config.listener import Listener
from tidemark.contract.failures import Scope
from tidemark.listener.delivery.assignment import Assigned, Assignment
from tidemark.listener.delivery.batch import Batch, BatchResult, Record
from tidemark.listener.delivery.failure import Failure


@dataclass(frozen=True)
class GivenUp:
    """A record whose exit condition is met."""

    record: Record
    failure: Failure
    attempts: int


@dataclass
class Settlement:
    """`delays`: seconds to leave each partition alone. `outage`: all of them, for a dependency is down."""

    given_up: list[GivenUp] = field(default_factory=list)
    stop: Failure | None = None
    delays: dict[int, float] = field(default_factory=dict)
    outage: float | None = None
    narrow: bool = False
    succeeded: int = 0
    failed: int = 0


class Settler:
    """Counts attempts and holds the exit condition.

    A failure that names its records counts against those. One of the whole batch counts against all of
    it, but blames none: once `max-attempts` is reached, batches are halved until the bad record stands
    alone, so that its neighbours are not dead-lettered with it.
    """

    def __init__(self, settings: Listener, backoff: Callable[[int], float]) -> None:
        self._settings = settings
        self._backoff = backoff
        self._outages = 0
        self.limit = settings.batch_size
        """How many records the next batch may have."""

    def settle(self, batch: Batch, result: BatchResult, assignment: Assignment) -> Settlement:
        settlement = Settlement()
        for index, record in enumerate(batch.records):
            owned = assignment.current(record)
            if owned is None:
                continue
            if result.done(index):
                owned.offsets.done(record.offset)
                settlement.succeeded += 1
            elif (failure := result.failures.get(index)) is not None:
                settlement.failed += 1
                self._count(settlement, owned, record, failure, whole=result.whole)
        self._resize(batch, result, settlement)
        if settlement.outage is None and (settlement.succeeded or settlement.failed):
            self._outages = 0
        return settlement

    def _count(
        self, settlement: Settlement, owned: Assigned, record: Record, failure: Failure, *, whole: bool
    ) -> None:
        if failure.scope is Scope.PROCESS:
            settlement.stop = settlement.stop or failure
            return
        if failure.deferred or (failure.scope is Scope.DEPENDENCY and self._settings.on_outage == "pause"):
            self._wait_for_dependency(settlement, failure)
            return
        owned.offsets.attempts[record.offset] += 1
        attempts = owned.offsets.attempts[record.offset]
        exhausted = attempts >= self._settings.max_attempts or not failure.retriable
        if exhausted and whole:
            settlement.narrow = True
        elif exhausted:
            settlement.given_up.append(GivenUp(record, failure, attempts))
            return
        wait = 0.0 if exhausted else max(self._backoff(attempts), self._asked_for(failure) or 0.0)
        settlement.delays[owned.epoch] = max(wait, settlement.delays.get(owned.epoch, 0.0))

    def _wait_for_dependency(self, settlement: Settlement, failure: Failure) -> None:
        if settlement.outage is None:
            self._outages += 1
            settlement.outage = 0.0
        asked = self._asked_for(failure)
        settlement.outage = max(settlement.outage, self._backoff(self._outages) if asked is None else asked)

    def _asked_for(self, failure: Failure) -> float | None:
        """Seconds that the other side asked to be left alone, within the longest wait that is configured. An
        open breaker of our own knows best.
        """
        if failure.retry_after is None or failure.deferred:
            return failure.retry_after
        return min(failure.retry_after, self._settings.retry.cap)

    def _resize(self, batch: Batch, result: BatchResult, settlement: Settlement) -> None:
        if settlement.narrow:
            self.limit = max(1, len(batch) // 2)
        elif result.succeeded:
            self.limit = min(self._settings.batch_size, self.limit * 2)
