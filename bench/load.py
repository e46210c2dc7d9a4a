"""What every way of landing is given, and how the time of its batches is taken."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import Event, StreamObserver

CHANGES = "CHANGES"
"""Records in Confluent's framing, as kafka2delta takes them."""


@dataclass(frozen=True)
class Load:
    """Records to be landed, of which each format has a topic of its own, and in batches of how many.

    `partitioned`: tables have the partition column `cob`.
    """

    bootstrap: str
    name: str
    records: int
    batch: int
    partitioned: bool = False

    @property
    def topic(self) -> str:
        return self.topic_of("JSON")

    def topic_of(self, form: str) -> str:
        # kafka2delta takes it for the name of a view.
        return f"{self.name}_{form.lower()}"


class Batches(StreamObserver):
    """Seconds from the end of each batch to the end of the next, and of every commit where they are reported.

    The first batch has the start of its stream in it.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.commits: list[float] = []
        self._began = time.monotonic()

    def batch_ended(self) -> None:
        now = time.monotonic()
        self.seconds.append(now - self._began)
        self._began = now

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport) and event.read:
            self.batch_ended()
            self.commits.append(event.commit_seconds)
