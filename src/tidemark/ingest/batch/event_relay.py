"""What batches tell where they run in another process (Spark Connect): files beside the checkpoint.

A batch writes each event there, and the process that started the query reads it to its own observers.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from pyspark.sql import SparkSession

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.failures import Scope
from tidemark.contract.marks import Marks
from tidemark.contract.observer import StreamObserver
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.monitoring.background_thread import BackgroundThread
from tidemark.ingest.observers import notify_retries
from tidemark.platform.session import over_connect

log = structlog.get_logger(__name__)

FOLDER = "told"
_EVERY_S = 1.0
_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class EventRelay(StreamObserver):
    """Writes what a batch tells into `folder`, a file an event. Picklable. What cannot be written is a
    warning in the batch's own process, never a stop.
    """

    folder: str
    now_ns: Callable[[], int] = time.time_ns

    @property
    def shipped(self) -> StreamObserver:
        return self

    def batch_landed(self, report: BatchReport) -> None:
        # Not by `asdict`, which makes a Counter out of a Counter's pairs.
        told = {f.name: getattr(report, f.name) for f in fields(report)}
        told |= {"marks": _pairs(report.marks), "ends": _pairs(report.ends)}
        told |= {"failures": dict(report.failures)}
        self._post("batch_landed", told | {"newest": report.newest and report.newest.isoformat()})

    def batch_failed(self, stream: str, *, batch_id: int, scope: Scope, category: str, error: str) -> None:
        self._post(
            "batch_failed",
            {"stream": stream, "batch_id": batch_id, "scope": scope, "category": category, "error": error},
        )

    def retrying(self, stream: str, *, step: str, attempt: int, delay: float, category: str) -> None:
        self._post(
            "retrying",
            {"stream": stream, "step": step, "attempt": attempt, "delay": delay, "category": category},
        )

    def destination_tried(self, stream: str, *, destination: str, error: str | None) -> None:
        self._post("destination_tried", {"stream": stream, "destination": destination, "error": error})

    def paused(self, stream: str, *, destination: str, delay: float, error: str) -> None:
        self._post("paused", {"stream": stream, "destination": destination, "delay": delay, "error": error})

    def breaker_changed(self, name: str, old: str, new: str, reason: str) -> None:
        self._post("breaker_changed", {"name": name, "old": old, "new": new, "reason": reason})

    def _post(self, event: str, told: Mapping[str, object]) -> None:
        name = f"{self.now_ns():020d}-{uuid.uuid4().hex[:8]}"
        try:
            folder = Path(self.folder)
            folder.mkdir(exist_ok=True)
            # Under its own name only when it is whole.
            begun = folder / f".{name}"
            begun.write_text(json.dumps({"event": event, "told": told}), encoding="utf-8")
            os.replace(begun, folder / f"{name}.json")
        except (OSError, TypeError, ValueError) as error:
            log.warning("a batch cannot tell of itself", folder=self.folder, error=str(error))


def with_observers(plan: BatchPlan, observers: StreamObserver) -> BatchPlan:
    """The plan as it is used where a batch runs in another process: retries, pauses and changes of breakers
    are told to `observers`, as they are at home.
    """
    retry = replace(plan.retry, on_retry=notify_retries(plan.stream, observers))
    breakers = plan.availability.breakers.heard_by(
        lambda change: observers.breaker_changed(change.name, change.old, change.new, change.reason)
    )
    availability = replace(plan.availability, breakers=breakers, retry=retry, observers=observers)
    return replace(plan, retry=retry, availability=availability)


class Delivery(BackgroundThread):
    """Reads what is posted to `observers` each second and once more at the end, in the order it was reported.

    What a former run left there is thrown away: its counts are not this process's.
    """

    def __init__(self, folder: str, observers: StreamObserver) -> None:
        super().__init__("tidemark-told", ends_within=10)
        self._folder, self._observers = Path(folder), observers
        for left in self._waiting():
            left.unlink(missing_ok=True)

    def deliver(self) -> int:
        """How many events came. Never raises; what cannot be read is passed over."""
        came = 0
        for file in self._waiting():
            try:
                read = json.loads(file.read_text(encoding="utf-8")[:_MOST_BYTES])
                file.unlink(missing_ok=True)
                _tell(self._observers, str(read["event"]), read["told"])
                came += 1
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.warning("what a batch told cannot be read", file=str(file), error=repr(error))
                file.unlink(missing_ok=True)
        return came

    def _waiting(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _run_beside(self) -> None:
        while not self._over.wait(_EVERY_S):
            self.deliver()
        self.deliver()


@contextmanager
def relaying(spark: SparkSession, checkpoint: str, observers: StreamObserver) -> Iterator[StreamObserver]:
    """The observer to give to a query's batches: `observers`, or where the batches run in another process one
    that posts to them while the `with` lasts.
    """
    if not over_connect(spark):
        yield observers
        return
    folder = f"{checkpoint.removeprefix('file://').removeprefix('file:')}/{FOLDER}"
    with Delivery(folder, observers):
        yield EventRelay(folder)


def _tell(observers: StreamObserver, event: str, told: dict[str, Any]) -> None:
    if event == "batch_landed":
        observers.batch_landed(_report(told))
    elif event == "batch_failed":
        observers.batch_failed(told.pop("stream"), **{**told, "scope": Scope(told["scope"])})
    elif event == "retrying":
        observers.retrying(told.pop("stream"), **told)
    elif event == "destination_tried":
        observers.destination_tried(told.pop("stream"), **told)
    elif event == "paused":
        observers.paused(told.pop("stream"), **told)
    elif event == "breaker_changed":
        observers.breaker_changed(told["name"], told["old"], told["new"], told["reason"])
    else:
        raise ValueError(f"no event is named {event}")


def _report(told: dict[str, Any]) -> BatchReport:
    newest, ends = told["newest"], told["ends"]
    return BatchReport(
        **{
            **told,
            "marks": Marks(told["marks"]),
            "ends": None if ends is None else Marks(ends),
            "newest": None if newest is None else datetime.fromisoformat(newest),
        }
    )


def _pairs(marks: Marks | None) -> dict[int, int] | None:
    return None if marks is None else dict(marks)
