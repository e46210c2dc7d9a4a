"""The observer that turns events into metrics, and keeps the inputs of the health indicators."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import summary_of_error
from tidemark.contract.events import (
    BatchFailed,
    BreakerChanged,
    DestinationTried,
    Event,
    OffsetsLost,
    Paused,
    Retrying,
    StreamEnded,
    StreamObserver,
    StreamsExpected,
    StreamStarted,
)
from tidemark.contract.failures import Scope
from tidemark.contract.marks import Marks
from tidemark.contract.routes import Route
from tidemark.monitoring.indicators import StreamInfo
from tidemark.monitoring.metrics import Metrics

_COMMIT_STEPS = ("append", "commit", "merge")


@dataclass(frozen=True)
class Seen:
    """What this process knows of one stream. `failing`: the error of the last write to its table, or None."""

    stream: str
    topic: str
    table: str
    marks: Marks = field(default_factory=Marks)
    ends: Marks | None = None
    running: bool = True
    failing: str | None = None
    problem: str | None = None

    @property
    def lag(self) -> int | None:
        if self.ends is None:
            return None
        return sum(max(0, end - self.marks.at(p)) for p, end in self.ends.items())


class MetricsObserver(StreamObserver):
    """Feeds `metrics`. Thread-safe; does no I/O, so that a batch pays microseconds for it."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}
        self._expected: tuple[str, ...] | None = None

    def streams(self) -> dict[str, Seen]:
        with self._lock:
            return dict(self._seen)

    def facts(self) -> dict[str, StreamInfo]:
        """For the indicator of freshness."""
        return {
            name: StreamInfo(seen.running, seen.lag, self.metrics.commit_age(name), seen.problem)
            for name, seen in self.streams().items()
        }

    def outcomes(self) -> dict[str, str | None]:
        """For the indicator of `delta-write`."""
        return {name: seen.failing for name, seen in self.streams().items()}

    def waiting(self) -> tuple[str, ...] | None:
        """Streams that have not started; None before the streams are known."""
        with self._lock:
            expected = self._expected
            return None if expected is None else tuple(n for n in expected if n not in self._seen)

    def emit(self, event: Event) -> None:
        match event:
            case StreamsExpected(streams):
                with self._lock:
                    self._expected = streams
            case StreamStarted():
                self._started(event)
            case OffsetsLost(stream, records):
                self.metrics.add("tidemark_lost_offsets_total", records, stream=stream)
            case BatchReport():
                self._landed(event)
            case BatchFailed(stream=stream, scope=scope):
                self._failed(stream, scope, retriable=scope is Scope.DEPENDENCY)
            case Retrying(stream=stream, step=step):
                self._retrying(stream, step)
            case DestinationTried(stream, "table", error):
                with self._lock:
                    if stream in self._seen:
                        self._seen[stream] = replace(self._seen[stream], failing=error)
            case Paused(stream=stream):
                self._failed(stream, Scope.DEPENDENCY, retriable=True)
            case BreakerChanged(name=name, new=state):
                self.metrics.breaker(name, state)
                self.metrics.add("tidemark_breaker_changes_total", breaker=name, state=state)
            case StreamEnded(stream, error):
                self._ended(stream, error)

    def ends_known(self, stream: str, ends: Marks) -> None:
        """Set the topic's ends between batches."""
        with self._lock:
            if stream in self._seen:
                self._seen[stream] = replace(self._seen[stream], ends=ends)
        self._lag(stream)

    def _started(self, event: StreamStarted) -> None:
        stream = event.stream
        with self._lock:
            before = self._seen.get(stream)
            self._seen[stream] = Seen(
                stream, event.topic, event.table, event.marks, before.ends if before else None
            )
        self.metrics.declare_stream(stream, topic=event.topic, table=event.table)
        self.metrics.set("tidemark_stream_running", 1, stream=stream)
        if before is not None:
            self.metrics.add("tidemark_stream_restarts_total", stream=stream)
        self._lag(stream)

    def _landed(self, report: BatchReport) -> None:
        stream, metrics = report.stream, self.metrics
        with self._lock:
            seen = self._seen.get(stream) or Seen(stream, "", "")
            ends = report.ends if report.ends is not None else seen.ends
            self._seen[stream] = replace(seen, marks=report.marks, ends=ends)
        metrics.add("tidemark_records_read_total", report.read, stream=stream)
        for route, count in (
            (Route.ACCEPTED, report.accepted),
            (Route.REJECTED, report.rejected),
            (Route.SKIPPED, report.skipped),
            (Route.DUPLICATE, report.duplicate),
        ):
            metrics.add("tidemark_records_processed_total", count, stream=stream, route=route.value)
        metrics.add("tidemark_duplicates_total", report.duplicate, stream=stream)
        metrics.add("tidemark_conflicts_total", report.conflicts, stream=stream)
        metrics.add("tidemark_unknown_fields_total", report.unknown_fields, stream=stream)
        if report.copies is not None:
            metrics.add("tidemark_fingerprint_checks_total", report.read, stream=stream)
            metrics.add("tidemark_fingerprint_hits_total", report.copies, stream=stream)
        metrics.dead_letters(stream, report.failures)
        self._failed(stream, Scope.RECORD, retriable=False, count=report.rejected)
        metrics.observe("tidemark_batch_latency_seconds", report.seconds, stream=stream)
        metrics.set("tidemark_reconciliation_difference_records", report.difference, stream=stream)
        if report.read and report.seconds > 0:
            rate = report.read / report.seconds
            metrics.set("tidemark_write_throughput_records_per_second", rate, stream=stream)
        if report.version is not None:
            metrics.add("tidemark_delta_commits_total", stream=stream, outcome="committed")
            metrics.observe("tidemark_storage_write_seconds", report.commit_seconds, stream=stream)
            metrics.add("tidemark_files_written_total", report.files_written, stream=stream)
            metrics.add("tidemark_bytes_written_total", report.bytes_written, stream=stream)
            metrics.committed(stream, version=report.version)
        self._lag(stream)

    def _retrying(self, stream: str, step: str) -> None:
        topic = self._topic(stream)
        self.metrics.add("tidemark_retries_total", stream=stream, topic=topic)
        self._failed(stream, Scope.DEPENDENCY, retriable=True)
        if step.startswith(_COMMIT_STEPS):
            self.metrics.add("tidemark_delta_commits_total", stream=stream, outcome="failed")

    def _ended(self, stream: str, error: BaseException | None) -> None:
        problem = None if error is None else summary_of_error(error)
        with self._lock:
            seen = self._seen.get(stream) or Seen(stream, "", "")
            # A stream that read all there was, or was stopped, has not failed.
            self._seen[stream] = replace(seen, running=error is None, problem=problem)
        self.metrics.set("tidemark_stream_running", 0, stream=stream)

    def _failed(self, stream: str, scope: Scope, *, retriable: bool, count: int = 1) -> None:
        labels = {"stream": stream, "scope": scope.value, "retriable": str(retriable).lower()}
        self.metrics.add("tidemark_failures_total", count, **labels)

    def _topic(self, stream: str) -> str:
        with self._lock:
            seen = self._seen.get(stream)
        return seen.topic if seen else ""

    def _lag(self, stream: str) -> None:
        with self._lock:
            seen = self._seen.get(stream)
        for partition, end in (seen.ends or {}).items() if seen else ():
            lag = max(0, end - seen.marks.at(partition)) if seen else 0
            self.metrics.set("tidemark_lag_records", lag, stream=stream, partition=str(partition))
