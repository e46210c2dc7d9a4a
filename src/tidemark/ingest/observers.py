"""Tells several observers, each on its own: one that raises stops neither the stream nor the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.failures import Decision, Scope
from tidemark.contract.marks import Marks
from tidemark.contract.observer import StreamObserver
from tidemark.resilience.retry import Attempt

log = structlog.get_logger(__name__)

_STEPS_OF_THE_TABLE = ("append", "commit", "read the log")
_RULES_OF_THE_TOPIC = ("kafka", "credentials-kafka", "missing-topic", "data-loss", "unreadable")


@dataclass(frozen=True)
class Observers(StreamObserver):
    each: Sequence[StreamObserver] = ()

    def streams_expected(self, streams: Sequence[str]) -> None:
        self._tell(lambda o: o.streams_expected(streams))

    def stream_started(
        self, stream: str, *, topic: str, topic_id: str, table: str, marks: Marks, fresh: bool
    ) -> None:
        self._tell(
            lambda o: o.stream_started(
                stream, topic=topic, topic_id=topic_id, table=table, marks=marks, fresh=fresh
            )
        )

    def offsets_lost(self, stream: str, *, records: int) -> None:
        self._tell(lambda o: o.offsets_lost(stream, records=records))

    def batch_landed(self, report: BatchReport) -> None:
        self._tell(lambda o: o.batch_landed(report))

    def batch_failed(self, stream: str, *, batch_id: int, scope: Scope, category: str, error: str) -> None:
        self._tell(
            lambda o: o.batch_failed(stream, batch_id=batch_id, scope=scope, category=category, error=error)
        )

    def retrying(self, stream: str, *, step: str, attempt: int, delay: float, category: str) -> None:
        self._tell(lambda o: o.retrying(stream, step=step, attempt=attempt, delay=delay, category=category))

    def destination_tried(self, stream: str, *, destination: str, error: str | None) -> None:
        self._tell(lambda o: o.destination_tried(stream, destination=destination, error=error))

    def paused(self, stream: str, *, destination: str, delay: float, error: str) -> None:
        self._tell(lambda o: o.paused(stream, destination=destination, delay=delay, error=error))

    def breaker_changed(self, name: str, old: str, new: str, reason: str) -> None:
        self._tell(lambda o: o.breaker_changed(name, old, new, reason))

    def stream_ended(self, stream: str, error: BaseException | None) -> None:
        self._tell(lambda o: o.stream_ended(stream, error))

    def _tell(self, event: Callable[[StreamObserver], None]) -> None:
        for observer in self.each:
            try:
                event(observer)
            except Exception as error:
                log.error("an observer failed", observer=type(observer).__name__, error=repr(error))


def of_the_topic(decision: Decision) -> bool:
    """Whether reading the topic is what failed: a batch is read while it is written."""
    return decision.rule.startswith(_RULES_OF_THE_TOPIC)


def notify_retries(stream: str, observers: StreamObserver) -> Callable[[Attempt], None]:
    """Tells `observers` of each attempt of a stream that is to be repeated."""

    def told(attempt: Attempt) -> None:
        observers.retrying(
            stream,
            step=attempt.step,
            attempt=attempt.number,
            delay=attempt.delay,
            category=attempt.decision.category,
        )
        if attempt.step.startswith(_STEPS_OF_THE_TABLE) and not of_the_topic(attempt.decision):
            observers.destination_tried(stream, destination="table", error=attempt.error_info.summary)

    return told
