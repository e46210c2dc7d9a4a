"""Background tasks of a running query: heartbeat, expired fingerprints, the probe of a table that was
unavailable, and the replay of what was dead-lettered meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import SparkSession

from tidemark.contract.errors import RestartStream
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.dead_letter_table import DeadLetterTableQuery
from tidemark.ingest.heartbeat import beat_if_due
from tidemark.ingest.idempotency.fingerprints import memory_problem
from tidemark.ingest.outage_replay import OutageReplay
from tidemark.ingest.table_probe import probe
from tidemark.streams.target import Target

_HEARTBEAT_LOOK_S = 3600.0


@dataclass
class Background:
    """Called each second, from the thread that watches the query. Raises Fenced, LedgerError
    and RestartStream.
    """

    spark: SparkSession
    target: Target
    ledger: HeldLedger
    now: Callable[[], datetime]
    replay_outage: OutageReplay
    keep_dead_letters: DeadLetterTableQuery
    _looked_at: float = field(default_factory=time.monotonic)
    _cleaned_at: float = field(default_factory=time.monotonic)

    def __call__(self) -> None:
        probe(self.spark, self.ledger, self.target.schema)
        if time.monotonic() - self._looked_at > _HEARTBEAT_LOOK_S:
            self._looked_at = time.monotonic()
            beat_if_due(self.spark, self.target, self.ledger.plan.topic, now=self.now())
        self._clean_up()
        self.keep_dead_letters()
        self.replay_outage()

    def _clean_up(self) -> None:
        """Spark expires fingerprints only with the next record; where all have expired the query restarts."""
        options = self.target.stream.idempotency
        if not self.target.remembers or time.monotonic() - self._cleaned_at < options.cleanup_interval:
            return
        self._cleaned_at = time.monotonic()
        now_ms = round(self.now().timestamp() * 1000)
        problem = memory_problem(self.ledger.plan.checkpoint, options, now_ms=now_ms)
        if problem is not None and not self.ledger.busy.locked():
            raise RestartStream(f"fingerprints: {problem}")
