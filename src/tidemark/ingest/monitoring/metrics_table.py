"""One row for each batch in a Delta table, for dashboards; appended in the background."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog
from pyspark.sql import SparkSession

from tidemark.config.destination import TableRef
from tidemark.config.settings import Settings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import summary_of_error
from tidemark.contract.events import Event, StreamObserver
from tidemark.ingest.monitoring.background_thread import BackgroundThread
from tidemark.monitoring.metrics import Metrics
from tidemark.platform.local_rows import rows_of
from tidemark.platform.session import s3_scheme
from tidemark.sink.statements import save_into

log = structlog.get_logger(__name__)

_OF_THE_REPORT = (
    *("stream", "batch_id", "version", "read", "accepted", "rejected", "skipped", "duplicate", "difference"),
    *("unknown_fields", "seconds", "commit_seconds", "files_written", "bytes_written", "lag"),
)
SCHEMA = (
    "at TIMESTAMP, application STRING, run STRING, stream STRING, batch_id BIGINT, version BIGINT,"
    " read BIGINT, accepted BIGINT, rejected BIGINT, skipped BIGINT, duplicate BIGINT, difference BIGINT,"
    " unknown_fields BIGINT, seconds DOUBLE, commit_seconds DOUBLE, files_written BIGINT,"
    " bytes_written BIGINT, lag BIGINT, failures MAP<STRING, BIGINT>, marks MAP<INT, BIGINT>,"
    " newest TIMESTAMP"
)
_MOST_WAITING = 10_000
_MOST_AT_ONCE = 500
_SELDOM = 100
_LONGEST_PAUSE_S = 300.0
_LOCK_S = 20.0


def metrics_table_of(settings: Settings) -> TableRef | None:
    """The table that `metrics.table` names; None where there is none."""
    if settings.metrics.table is None:
        return None
    return settings.table(settings.metrics.table, scheme=s3_scheme())


def pause_after(took: float, *, every: float) -> float:
    """Seconds until the next append, after one that took `took` seconds."""
    return max(every, min(_LONGEST_PAUSE_S, took * _SELDOM))


class MetricsTable(BackgroundThread, StreamObserver):
    """Rows wait in memory; a background thread appends them every `every` seconds, and at the end.

    After an append that took longer than a hundredth of that, the pause is a hundred times as long, five
    minutes at most: appends take at most a percent of the time. A stream never waits for them. Rows that
    cannot be written wait for the next append, and the oldest of more than 10,000 are dropped; each failure
    is a warning and a metric.
    """

    schema = SCHEMA

    def __init__(
        self,
        spark: SparkSession,
        table: TableRef,
        metrics: Metrics,
        *,
        application: str,
        run: str = "",
        every: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__("tidemark-metrics", ends_within=60)
        self._spark, self._table, self._metrics = spark, table, metrics
        self._application, self._run, self._every, self._now = application, run, every, now
        self._waiting: queue.Queue[tuple[Any, ...]] = queue.Queue(_MOST_WAITING)
        self._kept: list[tuple[Any, ...]] = []

    def emit(self, event: Event) -> None:
        row = self._row_of(event)
        while row is not None:
            try:
                self._waiting.put_nowait(row)
                return
            except queue.Full:
                self._lost()
                self._waiting.get_nowait()

    def flush(self) -> int:
        """Append the waiting rows; returns their number. Never raises."""
        while len(self._kept) < _MOST_AT_ONCE:
            try:
                self._kept.append(self._waiting.get_nowait())
            except queue.Empty:
                break
        rows = self._kept
        if not rows:
            return 0
        try:
            landed = rows_of(self._spark, rows, self.schema)
            writer = landed.coalesce(1).write.format("delta").mode("append")
            # Other applications, and maintenance, write to this table too.
            save_into(writer, self._table, lock_s=_LOCK_S)
        except Exception as error:
            self._metrics.add("tidemark_telemetry_errors_total", part="metrics-table")
            summary = summary_of_error(error)
            log.warning("metrics not written; the stream goes on", table=str(self._table), error=summary)
            return 0
        self._kept = []
        return len(rows)

    def _work(self) -> None:
        wait = self._every
        while not self._over.wait(wait):
            began = time.monotonic()
            while self.flush() == _MOST_AT_ONCE:
                pass
            wait = pause_after(time.monotonic() - began, every=self._every)
        deadline = time.monotonic() + 30
        while self.flush() and time.monotonic() < deadline:
            pass

    def _lost(self) -> None:
        self._metrics.add("tidemark_telemetry_errors_total", part="metrics-table")

    def _row_of(self, report: Event) -> tuple[Any, ...] | None:
        if not isinstance(report, BatchReport):
            return None
        return (
            self._now(),
            self._application,
            self._run,
            *(getattr(report, name) for name in _OF_THE_REPORT),
            dict(report.failures),
            dict(report.marks),
            None if report.newest is None else report.newest.replace(tzinfo=UTC),
        )
