"""Derives the next steps from the result of an execution. Pure, without Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemark.config.listener import Listener
from tidemark.contract.failures import Scope
from tidemark.listener.delivery.assignment import Assigned, Assignment
from tidemark.listener.delivery.batch import Batch, BatchResult, Record
from tidemark.listener.delivery.failure import Failure
from tidemark.listener.delivery.judging import policy_of


@dataclass(frozen=True)
class GivenUp:
    """A record whose exit condition is met."""

    record: Record
    failure: Failure
    attempts: int


@dataclass
class Settlement:
    """`delays`: seconds to pause each partition, by epoch. `outage`: seconds to pause all, as a dependency is down."""

    given_up: list[GivenUp] = field(default_factory=list)
    stop: Failure | None = None
    delays: dict[int, float] = field(default_factory=dict)
    outage: float | None = None
    narrow: bool = False
    succeeded: int = 0
    failed: int = 0

    def delay(self, owned: Assigned, seconds: float) -> None:
        """Pauses the partition for at least so long."""
        self.delays[owned.epoch] = max(seconds, self.delays.get(owned.epoch, 0.0))


class Settler:
    """Counts attempts and decides by the exit condition.

    A failure that names its records counts against those. One of the whole batch counts against all of its records,
    and none is given up: once `max-attempts` is reached, batches are halved until the bad record is alone in one,
    so that its neighbours are not dead-lettered with it.
    """

    def __init__(self, settings: Listener) -> None:
        self._settings = settings
        self._policy = policy_of(settings.retry, attempts=settings.max_attempts)
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
        wait = self._policy.delay(attempts, retry_after=failure.retry_after) if failure.retriable else None
        if wait is None and not whole:
            settlement.given_up.append(GivenUp(record, failure, attempts))
            return
        settlement.narrow |= wait is None
        settlement.delay(owned, wait or 0.0)

    def _wait_for_dependency(self, settlement: Settlement, failure: Failure) -> None:
        if settlement.outage is None:
            self._outages += 1
            settlement.outage = 0.0
        backoff = self._policy.backoff
        wait = failure.retry_after
        if wait is None:
            wait = backoff.delay(self._outages)
        elif not failure.deferred:
            # The configured cap bounds the wait that a dependency asks for, but not that of an open breaker.
            wait = min(wait, backoff.cap)
        settlement.outage = max(settlement.outage, wait)

    def _resize(self, batch: Batch, result: BatchResult, settlement: Settlement) -> None:
        if settlement.narrow:
            self.limit = max(1, len(batch) // 2)
        elif result.succeeded:
            self.limit = min(self._settings.batch_size, self.limit * 2)
