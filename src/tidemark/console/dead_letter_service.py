"""The dead letters of all configured streams for the console: one change at a time, and counts of open ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.listing import Listed, Place, Tally
from tidemark.dead_letters.replay import ReplayResult
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.dead_letters.service import ALL, DeadLetters
from tidemark.monitoring.metrics import Metrics

MOST_LISTED = 100
COUNTED_EVERY = 30.0
"""Seconds between two counts of the open dead letters: each reads the status of every dead letter."""


@dataclass
class DeadLetterService:
    """Reads and changes the dead letters of the configured streams. One change at a time; `changes` counts them.

    Every method raises UsageError for a stream without dead letters, or an unknown dead letter.
    """

    settings: Settings
    spark: Callable[[], SparkSession]
    changes: int = 0
    _of: dict[str, DeadLetters] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def streams(self) -> list[str]:
        return [name for name, s in self.settings.streams.items() if s.destination is not None]

    def tally(self, stream: str) -> list[Tally]:
        """Empty while there is no table yet."""
        found = self.of(stream)
        return found.tally(Selection(statuses=ALL)) if found.table.exists(self.spark()) else []

    def listed(
        self, stream: str, *, code: str | None = None, status: str | None = None, after: Place | None = None
    ) -> tuple[list[Listed], Place | None]:
        """The newest dead letters behind `after`, and the place of the next ones if there are more."""
        found = self.of(stream)
        if not found.table.exists(self.spark()):
            return [], None
        statuses = tuple(s for s in ALL if status in (None, s))
        selection = Selection(codes=(code,) if code else (), statuses=statuses)
        return found.page(selection, MOST_LISTED, after) if statuses else ([], None)

    def one(self, stream: str, dead_letter: str) -> Mapping[str, Any]:
        return self.of(stream).show(dead_letter)

    def bring_in(self, stream: str) -> None:
        with self._lock:
            self.of(stream).catch_up()
            self.changes += 1

    def replay(
        self, stream: str, dead_letter: str, *, value: str | None, dry_run: bool, by: str, why: str
    ) -> ReplayResult:
        """Replays a dead letter, with `value` instead of its own where one is given."""
        edit = PayloadEdit.to(value) if value is not None else None
        with self._lock:
            self.changes += not dry_run
            selection = Selection(dead_letters=(dead_letter,))
            return self.of(stream).replay(selection, edit=edit, dry_run=dry_run, by=f"{by}: {why}")

    def put(self, stream: str, dead_letter: str, status: DeadLetterStatus, *, by: str, why: str) -> None:
        """Parks or discards a dead letter, or makes it new again."""
        with self._lock:
            self.of(stream).mark([dead_letter], status, by=by, note=why)
            self.changes += 1

    def of(self, stream: str) -> DeadLetters:
        if stream not in self._of:
            if stream not in self.streams:
                known: Sequence[str] = self.streams
                raise UsageError(f"no stream is named {stream}", f"there are {', '.join(known)}")
            self._of[stream] = DeadLetters.of(self.spark(), self.settings, stream)
        return self._of[stream]


class OpenDeadLetters:
    """Counts the `new` dead letters by code, every COUNTED_EVERY seconds. Raises the errors of reading."""

    def __init__(
        self, service: DeadLetterService, metrics: Metrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._service, self._metrics, self._monotonic = service, metrics, monotonic
        self._due, self._changes = monotonic(), service.changes
        self._codes: dict[str, list[tuple[str, int]]] = {}

    def codes(self, stream: str) -> list[tuple[str, int]]:
        """(code, number of open ones), the most frequent first, as of the newest count."""
        return self._codes.get(stream, [])

    def count_if_due(self) -> None:
        now, changes = self._monotonic(), self._service.changes
        if now < self._due and changes == self._changes:
            return
        self._due, self._changes = now + COUNTED_EVERY, changes
        for stream in self._service.streams:
            tally = self._service.tally(stream)
            self._codes[stream] = [
                (t.failure_code, t.letters) for t in tally if t.status == DeadLetterStatus.NEW
            ]
            waiting = sum(count for _, count in self._codes[stream])
            self._metrics.set("tidemark_dead_letters_open", waiting, stream=stream)
