"""What the console does with dead letters: the same functions as the command's, one letter at a time."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.settings import Settings
from tidemark.contract import records
from tidemark.contract.dead_letters import LETTER_ID, LetterStatus
from tidemark.contract.errors import UsageError
from tidemark.observe.metrics import Metrics
from tidemark.pipeline.dead_letters import keep_letters, letter_target
from tidemark.pipeline.letter_files import collectable
from tidemark.pipeline.replay import Replayed, replay
from tidemark.pipeline.replay_choice import Choice, Edit
from tidemark.pipeline.start import Target
from tidemark.sink.dead_letter_table import LetterTable, event
from tidemark.source.topics import KafkaAdmin

MOST_LISTED = 100
_LISTED = (
    LETTER_ID, records.TOPIC, records.PARTITION, records.OFFSET, "failure_code", "failure_stage",
    "failure_message", "failed_at", "status", "attempts",
)  # fmt: skip


COUNTED_EVERY = 30.0
"""Seconds between two counts of the open letters: each reads the status of every letter."""


@dataclass
class LetterDesk:
    """Reads and moves the dead letters of the configured streams. One change at a time; `changes` counts.

    Every method raises UsageError for a stream without dead letters or a letter that is not there.
    """

    settings: Settings
    spark: Callable[[], SparkSession]
    changes: int = 0
    _targets: dict[str, Target] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def streams(self) -> list[str]:
        return [name for name, s in self.settings.streams.items() if s.destination is not None]

    def tally(self, stream: str) -> list[tuple[str, str, int]]:
        """(code, status, how many), the most frequent first."""
        letters = self._letters(stream)
        if letters is None:
            return []
        rows = letters.groupBy("failure_code", "status").count().collect()
        found = [(str(r["failure_code"]), str(r["status"]), int(r["count"])) for r in rows]
        return sorted(found, key=lambda entry: (-entry[2], entry[0], entry[1]))

    def listed(
        self, stream: str, *, code: str | None = None, status: str | None = None
    ) -> list[Mapping[str, Any]]:
        """The newest letters, without their payloads."""
        letters = self._letters(stream)
        if letters is None:
            return []
        if code:
            letters = letters.where(F.col("failure_code") == code)
        if status:
            letters = letters.where(F.col("status") == status)
        newest = letters.select(*_LISTED).orderBy(F.col("failed_at").desc(), LETTER_ID).limit(MOST_LISTED)
        return [row.asDict() for row in newest.collect()]

    def one(self, stream: str, letter: str) -> Mapping[str, Any]:
        """The letter with its payload and headers."""
        letters = self._letters(stream)
        found = collectable(letters.where(F.col(LETTER_ID) == letter)) if letters is not None else None
        row = found.first() if found is not None else None
        if row is None:
            raise UsageError(f"stream {stream} has no dead letter {letter}")
        return row.asDict()

    def bring_in(self, stream: str) -> None:
        """Brings the table up to the end of the dead letter topic, as `dead-letters stream` does."""
        with self._lock:
            keep_letters(self.spark(), self.settings, self._target(stream))
            self.changes += 1

    def replay(
        self, stream: str, letter: str, *, value: str | None, dry_run: bool, by: str, why: str
    ) -> Replayed:
        """Through the pipeline again, with `value` instead of its own where one is given."""
        edit = Edit(expression=_literal(value)) if value is not None else None
        with self._lock:
            self.changes += not dry_run
            return replay(
                self.spark(),
                KafkaAdmin(self.settings.kafka),
                self._target(stream),
                Choice(letters=(letter,)),
                edit=edit,
                dry_run=dry_run,
                by=f"{by}: {why}",
            )

    def put(self, stream: str, letter: str, status: LetterStatus, *, by: str, why: str) -> None:
        """Park or discard it, or make it new again."""
        self.one(stream, letter)
        with self._lock:
            table = LetterTable(self._target(stream).table)
            chosen = table.letters(self.spark()).where(F.col(LETTER_ID) == letter)
            table.note(event(chosen, status, by=by, note=F.lit(why)))
            self.changes += 1

    def _letters(self, stream: str) -> DataFrame | None:
        table = LetterTable(self._target(stream).table)
        return table.letters(self.spark()) if table.exists(self.spark()) else None

    def _target(self, stream: str) -> Target:
        if stream not in self._targets:
            if stream not in self.streams:
                known: Sequence[str] = self.streams
                raise UsageError(f"no stream is named {stream}", f"there are {', '.join(known)}")
            self._targets[stream] = letter_target(self.spark(), self.settings, stream, run=uuid.uuid4().hex)
        return self._targets[stream]


class OpenLetters:
    """Tells how many dead letters are `new`, now and then. Raises what reading raises."""

    def __init__(
        self, desk: LetterDesk, metrics: Metrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._desk, self._metrics, self._monotonic = desk, metrics, monotonic
        self._due, self._changes = monotonic(), desk.changes

    def count_if_due(self) -> None:
        now, changes = self._monotonic(), self._desk.changes
        if now < self._due and changes == self._changes:
            return
        self._due, self._changes = now + COUNTED_EVERY, changes
        for stream in self._desk.streams:
            tally = self._desk.tally(stream)
            waiting = sum(count for _, status, count in tally if status == LetterStatus.NEW)
            self._metrics.set("tidemark_dead_letters_open", waiting, stream=stream)


def _literal(text: str) -> str:
    """The text as SQL writes it, so that the note of an edit can be read.

    `${…}` would be replaced by Spark, with a setting or an environment variable, even within quotes.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"
