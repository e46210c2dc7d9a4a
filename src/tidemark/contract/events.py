"""How a stream tells of itself: metrics, health, replay and progress bars are observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.failures import Scope
from tidemark.contract.marks import Marks


class StreamObserver(Protocol):
    """Told of what streams do, from the threads that do it: be quick, and thread-safe.

    `stream` is the stream's name, with `.landing` behind it for its raw table. An observer that raises is
    logged and changes nothing. A batch that runs in another process (Spark Connect) tells `shipped`.
    """

    @property
    def shipped(self) -> StreamObserver:
        """What goes along with a batch that is pickled into another process; by default it tells nobody."""
        return SilentObserver()

    def streams_expected(self, streams: Sequence[str]) -> None:
        """These streams are to be started, and have not been yet."""
        return

    def stream_started(
        self, stream: str, *, topic: str, topic_id: str, table: str, marks: Marks, fresh: bool
    ) -> None:
        """A query is about to read on from `marks`; `fresh` if its checkpoint is new."""
        return

    def offsets_lost(self, stream: str, *, records: int) -> None:
        """Retention took so many offsets before they were read, and the stream goes on without them."""
        return

    def batch_landed(self, report: BatchReport) -> None:
        """A batch is done: rows and marks committed, dead letters acknowledged."""
        return

    def batch_failed(self, stream: str, *, batch_id: int, scope: Scope, category: str, error: str) -> None:
        """A batch ended without being done. `category` is a bounded word, `error` one line."""
        return

    def retrying(self, stream: str, *, step: str, attempt: int, delay: float, category: str) -> None:
        """Attempt number `attempt` of a step failed; the next one comes in `delay` seconds."""
        return

    def destination_tried(self, stream: str, *, destination: str, error: str | None) -> None:
        """`destination` was written, or read in order to write it: `error` is why that failed, one line, or
        None. What failed on the way there, such as reading the topic, is not told.
        """
        return

    def paused(self, stream: str, *, destination: str, delay: float, error: str) -> None:
        """A batch is kept, as `destination` is unavailable; it is tried again in `delay` seconds."""
        return

    def breaker_changed(self, name: str, old: str, new: str, reason: str) -> None:
        """`name` is `{stream}/{destination}`; states are CLOSED, OPEN and HALF_OPEN."""
        return

    def stream_ended(self, stream: str, error: BaseException | None) -> None:
        """The stream ended for good: read all there was, was told to stop, or stopped by `error`."""
        return


class SilentObserver(StreamObserver):
    """Does nothing: a base for observers that want to hear of some events only."""
