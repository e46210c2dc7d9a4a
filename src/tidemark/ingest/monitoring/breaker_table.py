"""The changes of breakers in a Delta table, for a console that does not share the state folder of the streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.config.settings import Settings
from tidemark.contract.errors import summary_of_error
from tidemark.contract.events import BreakerChanged, Event, StreamStarted
from tidemark.ingest.monitoring.metrics_table import MetricsTable, metrics_table_of
from tidemark.resilience.breaker_state import State
from tidemark.resilience.breakers import Breakers
from tidemark.sink import table as tables

log = structlog.get_logger(__name__)

READ_EVERY = 30.0
"""Seconds between two reads of the table: each is a query."""
_NEW_RUN = "a new run began with a closed breaker"


@dataclass(frozen=True)
class SeenBreaker:
    """A breaker as a console shows it. `opened_at`: Unix seconds. `failures`: None where they are not known."""

    name: str
    state: State
    failures: int | None = None
    opened_at: float | None = None


class BreakerTable(MetricsTable):
    """One row for each change of a breaker. A breaker that a former run left open, and that this run begins
    with closed, since it has another state folder, gets a row that says so once its stream starts.
    """

    schema = "at TIMESTAMP, application STRING, run STRING, breaker STRING, state STRING, reason STRING"

    def __init__(self, *args: Any, breakers: Breakers, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._breakers = breakers
        self._began: list[str] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, StreamStarted):
            self._began.append(event.stream)
        super().emit(event)

    def flush(self) -> int:
        """As of the metrics table; what a former run left open is looked at first."""
        began = [self._began.pop() for _ in range(len(self._began))]
        try:
            here = {b.name: b.state for b in self._breakers.snapshots()} if began else {}
            for left in last_changes(self._spark, self._table, self._application) if began else ():
                closed = here.get(left.name, State.CLOSED) is State.CLOSED
                if closed and left.state is not State.CLOSED and left.name.rpartition("/")[0] in began:
                    self.emit(BreakerChanged(left.name, left.state, State.CLOSED, _NEW_RUN))
        except Exception as error:
            self._lost()
            log.warning("breakers of former runs not read", error=summary_of_error(error))
        return super().flush()

    def _row_of(self, event: Event) -> tuple[Any, ...] | None:
        if not isinstance(event, BreakerChanged):
            return None
        return (self._now(), self._application, self._run, event.name, event.new, event.reason)


def breaker_table_of(settings: Settings) -> TableRef | None:
    """The table next to the metrics table, `…_breakers`; None where there is no metrics table."""
    metrics = metrics_table_of(settings)
    return None if metrics is None else metrics.breakers


def last_changes(spark: SparkSession, table: TableRef, application: str) -> list[SeenBreaker]:
    """Each breaker of the application after its last change, by name; empty while there is no table."""
    if tables.describe(spark, table) is None:
        return []
    seconds = F.unix_micros("at") / 1e6
    changes = spark.table(table.sql).where(F.col("application") == application)
    newest = changes.groupBy("breaker").agg(
        F.max_by("state", "at").alias("state"),
        F.max(F.when(F.col("state") == State.OPEN.value, seconds)).alias("opened_at"),
    )
    found = [(row.breaker, State(row.state), row.opened_at) for row in newest.orderBy("breaker").collect()]
    return [SeenBreaker(n, state, opened_at=None if state is State.CLOSED else at) for n, state, at in found]


class KnownBreakers:
    """The breakers with a file in this process's state folder, and those that the table alone knows."""

    def __init__(
        self,
        settings: Settings,
        spark: Callable[[], SparkSession],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._spark, self._monotonic = settings, spark, monotonic
        self._here = Breakers.of(settings)
        self._due = monotonic()
        self._elsewhere: list[SeenBreaker] = []

    def read_if_due(self) -> None:
        """Reads the table every READ_EVERY seconds. Raises the errors of reading."""
        table = breaker_table_of(self._settings)
        if table is not None and self._monotonic() >= self._due:
            self._due = self._monotonic() + READ_EVERY
            self._elsewhere = last_changes(self._spark(), table, self._settings.application_name)

    def all(self) -> list[SeenBreaker]:
        """By name, as of now in this folder, and as of the last read elsewhere."""
        found = {breaker.name: breaker for breaker in self._elsewhere}
        for b in self._here.snapshots():
            found[b.name] = SeenBreaker(b.name, b.state, b.failures, b.opened_at)
        return [found[name] for name in sorted(found)]
