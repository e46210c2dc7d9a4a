"""Several observers as one: an observer that raises stops neither the stream nor the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import DestinationTried, Event, Retrying, StreamObserver
from tidemark.contract.failures import Decision
from tidemark.resilience.retry import Attempt

log = structlog.get_logger(__name__)

COUNTED = ("read", "accepted", "rejected", "skipped", "duplicate")
"""The counts of a batch report by which its records are accounted for."""
_STEPS_OF_THE_TABLE = ("append", "commit", "read the log")
_RULES_OF_THE_TOPIC = ("kafka", "credentials-kafka", "missing-topic", "data-loss", "unreadable")


@dataclass(frozen=True)
class Observers(StreamObserver):
    """Pickles without its observers: they belong to this process."""

    each: Sequence[StreamObserver] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {"each": ()}

    def emit(self, event: Event) -> None:
        for observer in self.each:
            try:
                observer.emit(event)
            except Exception as error:
                log.error("an observer failed", observer=type(observer).__name__, error=repr(error))


class BatchTotals(StreamObserver):
    """The batches of each stream, and their records by route, added up."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, int]] = {}

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport):
            totals = self.of.setdefault(event.stream, dict.fromkeys(("batches", *COUNTED), 0))
            totals["batches"] += 1
            for name in COUNTED:
                totals[name] += int(getattr(event, name))


def of_the_topic(decision: Decision) -> bool:
    """Whether reading the topic is what failed: a batch is read while it is written."""
    return decision.rule.startswith(_RULES_OF_THE_TOPIC)


def notify_retries(stream: str, observers: StreamObserver) -> Callable[[Attempt], None]:
    """A callback that reports each failed attempt of a stream that will be repeated."""

    def notify(attempt: Attempt) -> None:
        category = attempt.decision.category
        observers.emit(Retrying(stream, attempt.step, attempt.number, attempt.delay, category))
        if attempt.step.startswith(_STEPS_OF_THE_TABLE) and not of_the_topic(attempt.decision):
            observers.emit(DestinationTried(stream, "table", attempt.error_info.summary))

    return notify
