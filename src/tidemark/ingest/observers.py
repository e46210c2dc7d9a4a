"""Several observers as one: an observer that raises stops neither the stream nor the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from tidemark.contract.events import DestinationTried, Event, Retrying, StreamObserver
from tidemark.contract.failures import Decision
from tidemark.resilience.retry import Attempt

log = structlog.get_logger(__name__)

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
