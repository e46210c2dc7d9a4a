"""Events of batches that run in another process (Spark Connect), relayed as files in the checkpoint's folder.

A batch writes each event there; the process that started the query reads it and emits it to its observers.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import structlog
from pydantic import TypeAdapter
from pyspark.sql import SparkSession

from tidemark.contract.events import BatchEvent, BreakerChanged, Event, StreamObserver
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.monitoring.background_thread import BackgroundThread
from tidemark.ingest.observers import notify_retries
from tidemark.platform.session import over_connect

log = structlog.get_logger(__name__)

FOLDER = "events"
_EVERY_S = 1.0
_MOST_BYTES = 1_000_000


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    return {kind.__name__: TypeAdapter(kind) for kind in get_args(BatchEvent)}


@dataclass(frozen=True)
class EventRelay(StreamObserver):
    """Writes events into `folder`, one file each. Picklable. A file that cannot be written is a warning in
    the batch's own process and never stops the stream.
    """

    folder: str
    now_ns: Callable[[], int] = time.time_ns

    def emit(self, event: Event) -> None:
        name = f"{self.now_ns():020d}-{uuid.uuid4().hex[:8]}"
        kind = type(event).__name__
        try:
            fields = _adapters()[kind].dump_python(event, mode="json")
            folder = Path(self.folder)
            folder.mkdir(exist_ok=True)
            # Renamed when complete, so that no reader sees half of it.
            incomplete = folder / f".{name}"
            incomplete.write_text(json.dumps({"event": kind, "fields": fields}), encoding="utf-8")
            os.replace(incomplete, folder / f"{name}.json")
        except (OSError, LookupError, TypeError, ValueError) as error:
            log.warning("event not relayed", folder=self.folder, error=str(error))


def with_observers(plan: BatchPlan, observers: StreamObserver) -> BatchPlan:
    """The plan where a batch runs in another process: retries, pauses and breaker changes are emitted to
    `observers` as they are in the process of the query.
    """
    retry = replace(plan.retry, on_retry=notify_retries(plan.stream, observers))
    breakers = plan.availability.breakers.heard_by(
        lambda change: observers.emit(BreakerChanged(change.name, change.old, change.new, change.reason))
    )
    availability = replace(plan.availability, breakers=breakers, retry=retry, observers=observers)
    return replace(plan, availability=availability)


class Delivery(BackgroundThread):
    """Emits relayed events to `observers` each second and once more at the end, in the order of their writing.

    Events of a former run are deleted: they do not belong to the counts of this process.
    """

    def __init__(self, folder: str, observers: StreamObserver) -> None:
        super().__init__("tidemark-events", ends_within=10)
        self._folder, self._observers = Path(folder), observers
        for left in self._waiting():
            left.unlink(missing_ok=True)

    def deliver(self) -> int:
        """Returns the number of events. Never raises; an unreadable event is logged and skipped."""
        delivered = 0
        for file in self._waiting():
            try:
                read = json.loads(file.read_text(encoding="utf-8")[:_MOST_BYTES])
                file.unlink(missing_ok=True)
                self._observers.emit(_adapters()[read["event"]].validate_python(read["fields"]))
                delivered += 1
            except (OSError, ValueError, LookupError, TypeError) as error:
                log.warning("relayed event not readable", file=str(file), error=repr(error))
                file.unlink(missing_ok=True)
        return delivered

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _work(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.deliver()
        self.deliver()


@contextmanager
def relaying(spark: SparkSession, checkpoint: str, observers: StreamObserver) -> Iterator[StreamObserver]:
    """The observer for a query's batches: `observers`, or a relay to them where batches run in another process."""
    if not over_connect(spark):
        yield observers
        return
    folder = f"{checkpoint.removeprefix('file://').removeprefix('file:')}/{FOLDER}"
    with Delivery(folder, observers):
        yield EventRelay(folder)
