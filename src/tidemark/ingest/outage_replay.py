"""Dead letters of an outage are replayed by themselves once the table is back (DESIGN §4)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.config.settings import Settings
from tidemark.contract.dead_letters import LetterStatus
from tidemark.contract.errors import TidemarkError
from tidemark.contract.failure_codes import FailureCode
from tidemark.contract.marks import Marks
from tidemark.dead_letters.replay import replay
from tidemark.dead_letters.selection import Choice
from tidemark.dead_letters.table import LetterTable
from tidemark.dead_letters.table_query import keep_letters
from tidemark.ingest.availability import TABLE
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.resilience.breaker_state import State
from tidemark.resilience.facts import facts_of
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)

OUTAGE = FailureCode.DEPENDENCY_UNAVAILABLE.value
BY = "tidemark, after an outage"
_PAUSE_AFTER_FAILURE_S = 30.0


@dataclass
class OutageReplay:
    """Called now and then beside a running query, and when it has ended. Does nothing while the table is
    away, and nothing where no letter of an outage is open. Letters that a former process left are looked for
    once. A replay that fails is logged and tried again later; it never ends the stream.
    """

    spark: SparkSession
    settings: Settings
    target: Target
    ledger: HeldLedger
    _replayed: Marks = field(default_factory=Marks)
    _looked: bool = False
    _not_before: float = 0.0

    def __call__(self) -> None:
        if self.target.decode is None or time.monotonic() < self._not_before:
            return
        try:
            if self._owed() and self._table_is_well():
                self._replay()
        except (TidemarkError, PySparkException) as error:
            self._not_before = time.monotonic() + _PAUSE_AFTER_FAILURE_S
            log.warning("replay failed", stream=self.target.name, error=facts_of(error).summary)

    def _replay(self) -> None:
        before = self.ledger.dead_lettered
        # A reader of its own: the DLQ table's own query may be running.
        keep_letters(self.spark, self.settings, self.target, reader="outage-letters")
        admin = self.ledger.plan.admin
        done = replay(self.spark, admin, self.target, Choice(codes=(OUTAGE,)), by=BY)
        if not done.waiting:
            self._replayed = before

    def _owed(self) -> bool:
        if not self._looked:
            self._looked = True
            return self._left_behind()
        return self._replayed != self.ledger.dead_lettered

    def _left_behind(self) -> bool:
        table = LetterTable(self.target.table)
        if not table.exists(self.spark):
            return False
        still_open = (F.col("failure_code") == OUTAGE) & (F.col("status") == LetterStatus.NEW.value)
        return not table.letters(self.spark).where(still_open).isEmpty()

    def _table_is_well(self) -> bool:
        breaker = self.ledger.plan.patience.breaker(TABLE)
        return breaker.state is State.CLOSED and self.ledger.unrecorded is None
