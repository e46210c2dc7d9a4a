"""Observes the streams from outside every few seconds: lag, dead letter topics, age of the last commits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from tidemark.config.settings import Settings
from tidemark.contract.errors import summary_of_error
from tidemark.ingest.monitoring.background_thread import BackgroundThread
from tidemark.monitoring.indicators import StreamInfo
from tidemark.monitoring.metrics import Metrics
from tidemark.source.ages import timestamps_at
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.status import StreamStatus

log = structlog.get_logger(__name__)

MOST_POINTS = 720
Look = Callable[[], Sequence[StreamStatus]]


@dataclass(frozen=True)
class Point:
    """One stream at one time. `at`: Unix seconds. `done`: offsets below the marks, over all partitions."""

    at: float
    lag: int
    done: int


class Watch(BackgroundThread):
    """A thread that calls `look`, sets the gauges and keeps the last points for charts. Never raises.

    `statuses`: the last successful look; `problem`: why the newest one failed, or None. Without `sets_lag`
    an observer sets the lag in records, which knows it sooner.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        look: Look,
        *,
        every: float = 5.0,
        sets_lag: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("tidemark-watch", ends_within=10)
        self._settings, self._metrics, self._look = settings, metrics, look
        self._every, self._sets_lag, self._clock = every, sets_lag, clock
        self._admin = KafkaAdmin(settings.kafka, timeout=5.0)
        self._lock = threading.Lock()
        self._points: dict[str, deque[Point]] = {}
        self._statuses: dict[str, StreamStatus] = {}
        self.looked_at: float | None = None
        self.problem: str | None = None

    @property
    def statuses(self) -> dict[str, StreamStatus]:
        with self._lock:
            return dict(self._statuses)

    def points(self, stream: str) -> list[Point]:
        with self._lock:
            return list(self._points.get(stream, ()))

    def progress(self) -> tuple[float, float]:
        """Offsets below the marks, and records on the dead letter topics, over all streams."""
        done = sum(p.mark for s in self.statuses.values() for p in s.partitions)
        return float(done), self._metrics.total("tidemark_dead_letter_topic_records")

    def facts(self) -> dict[str, StreamInfo]:
        """For the indicator of freshness. Whether a query runs cannot be seen from outside."""
        return {
            name: StreamInfo(
                running=None,
                lag=s.lag if s.topic_id is not None else None,
                commit_age=self._metrics.commit_age(name),
                problem=s.problem,
            )
            for name, s in self.statuses.items()
        }

    def look_once(self) -> None:
        try:
            found = list(self._look())
        except Exception as error:
            self._note(error)
            return
        now = self._clock()
        with self._lock:
            for status in found:
                self._statuses[status.stream] = status
                if status.topic_id is not None:
                    points = self._points.setdefault(status.stream, deque(maxlen=MOST_POINTS))
                    points.append(Point(now, status.lag, sum(p.mark for p in status.partitions)))
            self.looked_at = now
        self.problem = next((s.problem for s in found if s.problem and s.topic_id is None), None)
        for status in found:
            try:
                self._measure(status)
            except Exception as error:
                self._note(error)

    def _measure(self, status: StreamStatus) -> None:
        stream, metrics = status.stream, self._metrics
        metrics.declare_stream(stream, topic=status.topic, table=status.table)
        if status.last_commit_time is not None:
            at = datetime.fromisoformat(status.last_commit_time).timestamp()
            metrics.committed(stream, at=at, version=status.last_commit_version)
        if status.topic_id is None:
            return
        behind = {p.partition: p.mark for p in status.partitions if p.lag > 0}
        oldest = timestamps_at(self._admin, status.topic, behind) if behind else {}
        for p in status.partitions:
            labels = {"stream": stream, "partition": str(p.partition)}
            if self._sets_lag:
                metrics.set("tidemark_lag_records", p.lag, **labels)
            if p.lag == 0 or p.partition in oldest:
                age = self._clock() - oldest[p.partition] / 1000 if p.lag else 0.0
                metrics.set("tidemark_lag_seconds", max(0.0, age), **labels)
        if not stream.endswith(".landing"):
            self._measure_dead_letters(stream)

    def _measure_dead_letters(self, stream: str) -> None:
        records, oldest = dead_letter_topic_size(self._admin, self._settings.stream(stream).dlq_topic)
        self._metrics.set("tidemark_dead_letter_topic_records", records, stream=stream)
        age = 0.0 if oldest is None else max(0.0, self._clock() - oldest / 1000)
        self._metrics.set("tidemark_dead_letter_topic_age_seconds", age, stream=stream)

    def _note(self, error: Exception) -> None:
        problem = summary_of_error(error)
        if problem != self.problem:
            log.warning("streams cannot be observed", error=problem)
        self.problem = problem
        self._metrics.add("tidemark_telemetry_errors_total", part="watch")

    def _work(self) -> None:
        while not self._over.is_set():
            self.look_once()
            self._over.wait(self._every)


def dead_letter_topic_size(admin: KafkaAdmin, name: str) -> tuple[int, int | None]:
    """Number of offsets in the topic and the oldest record's timestamp (ms); 0 and None where it is empty."""
    topic = admin.find(name)
    if topic is None:
        return 0, None
    first, ends = admin.earliest(topic), admin.ends(topic)
    filled: Mapping[int, int] = {p: first.at(p) for p, end in ends.items() if end > first.at(p)}
    ages = timestamps_at(admin, name, filled)
    return sum(ends.at(p) - o for p, o in filled.items()), min(ages.values(), default=None)
