"""Replays the dead letters of an outage once the table is available again, also after a restart."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.config.settings import Settings
from tidemark.contract.backoff import Backoff
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import ShutdownRequested
from tidemark.contract.failure_codes import FailureCode
from tidemark.dead_letters.dlq_table.query import keep_dead_letters
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dead_letters.replay import Replay
from tidemark.dead_letters.selection import Selection
from tidemark.ingest.availability import TABLE
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.table_probe import commit_nothing
from tidemark.platform.session import over_connect
from tidemark.resilience.breaker_state import State
from tidemark.resilience.error_info import error_info_of
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)

OUTAGE = FailureCode.DEPENDENCY_UNAVAILABLE.value
BY = "tidemark, after an outage"
_BACKOFF = Backoff(base=2.0, cap=60.0)
_LOOK_AT_THE_LOG_S = 30.0
_LOCK_S = 5.0
_GRACE_S = 10.0


@dataclass
class OutageReplay:
    """Called each second by the thread that watches a query; replays in a thread of its own.

    The ledger holds whether a replay is due (`LedgerCommit.replay_due`) and that it is completed, so another
    process can continue it. Open dead letters of an outage that the DLQ table has already are looked for once.
    A replay that failed or left dead letters waiting is tried again with backoff. It never ends the stream.
    """

    spark: SparkSession
    settings: Settings
    target: Target
    ledger: HeldLedger
    clock: Callable[[], float] = time.monotonic
    _looked: bool = False
    _failures: int = 0
    _not_before: float = 0.0
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _tag: str = field(default_factory=lambda: f"tidemark-outage-replay-{uuid.uuid4().hex}")

    def __call__(self) -> None:
        if self._under_way or self.clock() < self._not_before or not self._wanted():
            return
        self._thread = threading.Thread(target=self._attempt, name=f"tidemark-outage-{self.target.name}")
        # A process that ends leaves an unfinished replay to the next one.
        self._thread.daemon = True
        self._thread.start()

    def finish(self, stopping: threading.Event) -> None:
        """At the end of a run that read all there was: replay what is due, unless it is stopping."""
        self._wait(stopping)
        self._not_before = 0.0
        self()
        self._wait(stopping)

    def abandon(self) -> None:
        """End a running replay, within a bound: the next start continues it."""
        self._ending.set()
        if self._thread is None:
            return
        self._thread.join(_GRACE_S)
        if self._under_way:
            log.warning("replay abandoned; the next start continues it", stream=self.target.name)
            self.spark.interruptTag(self._tag)
            self._thread.join(_GRACE_S)

    @property
    def _under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _wait(self, stopping: threading.Event) -> None:
        while self._under_way and not stopping.wait(0.1):
            pass

    def _wanted(self) -> bool:
        if self.target.decode is None or self.target.stream.idempotency.merge_keys or self._ending.is_set():
            return False
        breaker = self.ledger.plan.availability.breaker(TABLE)
        if breaker.state is State.OPEN or self.ledger.unrecorded is not None:
            return False
        return not self._looked or self._recorded > 0 or over_connect(self.spark)

    @property
    def _recorded(self) -> int:
        newest = self.ledger.state.newest
        return newest.replay_due if newest is not None else 0

    def _attempt(self) -> None:
        complete = False
        try:
            self.spark.addTag(self._tag)
            complete = self._replay_what_is_due()
        except ShutdownRequested:
            return
        except Exception as error:
            log.warning("replay failed", stream=self.target.name, error=error_info_of(error).summary)
        if complete:
            self._failures = 0
            self._not_before = self.clock() + (_LOOK_AT_THE_LOG_S if over_connect(self.spark) else 0.0)
            return
        self._failures += 1
        delay = _BACKOFF.delay(self._failures)
        self._not_before = self.clock() + delay
        log.info("replay is tried again", stream=self.target.name, seconds=round(delay, 1))

    def _replay_what_is_due(self) -> bool:
        """Whether no replay is due any more."""
        if over_connect(self.spark):
            # The batches run in another process: only the log has what they committed.
            with self.ledger.busy:
                self.ledger.refresh(self.spark)
        due = self._recorded
        if due > self.ledger.replayed or (not self._looked and self._left_behind()):
            # With its own checkpoint, as the DLQ table's own query may be running.
            keep_dead_letters(
                self.spark, self.settings, self.target, reader="outage-letters", ending=self._ending
            )
            admin = self.ledger.plan.admin
            how = Replay(self.spark, admin, self.target, by=BY, progress=self._go_on)
            done = how.of(Selection(codes=(OUTAGE,)))
            if done.waiting:
                return False
            self.ledger.replayed = max(self.ledger.replayed, due)
        self._looked = True
        return not due or self._settled()

    def _settled(self) -> bool:
        """Record in an empty ledger commit that no replay is due; false while a batch runs."""
        if not self.ledger.busy.acquire(timeout=_LOCK_S):
            return False
        try:
            self.ledger.refresh(self.spark)
            if 0 < self._recorded <= self.ledger.replayed:
                commit_nothing(self.spark, self.ledger, self.target.schema, "replayed")
            return True
        finally:
            self.ledger.busy.release()

    def _left_behind(self) -> bool:
        """Whether the DLQ table has open dead letters of an outage, such as those that a RESTORE reopens."""
        table = DeadLetterTable(self.target.table)
        if not table.exists(self.spark):
            return False
        still_open = (F.col("failure_code") == OUTAGE) & (F.col("status") == DeadLetterStatus.NEW.value)
        return not table.dead_letters(self.spark).where(still_open).isEmpty()

    def _go_on(self, step: str) -> None:
        if self._ending.is_set():
            raise ShutdownRequested(f"the replay of {self.target.name} ends before it could {step}")
