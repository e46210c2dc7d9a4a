"""The events of streams, which metrics, health, totals and progress bars observe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.failures import Scope
from tidemark.contract.marks import Marks


@dataclass(frozen=True)
class StreamsExpected:
    """These streams will be started."""

    streams: tuple[str, ...]


@dataclass(frozen=True)
class StreamStarted:
    """A query will read from `marks`; `fresh` if its checkpoint is new."""

    stream: str
    topic: str
    topic_id: str
    table: str
    marks: Marks
    fresh: bool


@dataclass(frozen=True)
class OffsetsLost:
    """Retention deleted `records` offsets before they were read; the stream continues after them."""

    stream: str
    records: int


@dataclass(frozen=True)
class BatchFailed:
    """A batch failed. `category` is of a closed list, `error` one line."""

    stream: str
    batch_id: int
    scope: Scope
    category: str
    error: str


@dataclass(frozen=True)
class Retrying:
    """Attempt number `attempt` of a step failed; the next one starts in `delay` seconds."""

    stream: str
    step: str
    attempt: int
    delay: float
    category: str


@dataclass(frozen=True)
class DestinationTried:
    """`destination` was written, or read in order to write it. `error` is one line, or None after success.
    Earlier failures, such as reading the topic, are not reported.
    """

    stream: str
    destination: str
    error: str | None


@dataclass(frozen=True)
class Paused:
    """A batch waits, as `destination` is unavailable; the next attempt starts in `delay` seconds."""

    stream: str
    destination: str
    delay: float
    error: str


@dataclass(frozen=True)
class BreakerChanged:
    """`name` is `{stream}/{destination}`; states are CLOSED, OPEN and HALF_OPEN."""

    name: str
    old: str
    new: str
    reason: str


@dataclass(frozen=True)
class StreamEnded:
    """The stream ended: it read all available records, was stopped, or failed with `error`."""

    stream: str
    error: BaseException | None


BatchEvent: TypeAlias = BatchReport | BatchFailed | Retrying | DestinationTried | Paused | BreakerChanged
"""Events of a batch. A BatchReport is the event of a completed one: rows and marks committed, dead letters
acknowledged."""
Event: TypeAlias = BatchEvent | StreamsExpected | StreamStarted | OffsetsLost | StreamEnded


class StreamObserver(Protocol):
    """Receives events from the threads that cause them: it must be quick and thread-safe.

    A stream is named by its configured name, with `.landing` appended for its raw table. An observer that
    raises is logged and changes nothing.
    """

    def emit(self, event: Event) -> None: ...
