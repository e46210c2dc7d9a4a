"""What the console does with dead letters: the same functions as the command's, one letter at a time."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.settings import Settings
from tidemark.contract import records
from tidemark.contract.dead_letters import LETTER_ID, LetterStatus
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.files import collectable, counted
from tidemark.dead_letters.replay import Replayed, replay
from tidemark.dead_letters.selection import Choice, Edit
from tidemark.dead_letters.table import LetterTable, event
from tidemark.dead_letters.table_query import keep_letters, letter_target
from tidemark.monitoring.metrics import Metrics
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.target import Target

MOST_LISTED = 100
_LISTED = (
    LETTER_ID, records.TOPIC, records.PARTITION, records.OFFSET, "failure_code", "failure_stage",
    "failure_message", "failed_at", "status", "attempts",
)  # fmt: skip


_MICROS = re.compile(r"-?[0-9]{1,18}")
COUNTED_EVERY = 30.0
"""Seconds between two counts of the open letters: each reads the status of every letter."""


@dataclass(frozen=True)
class Place:
    """A letter's place in the list, newest first: when it failed (microseconds of Unix time), and its id."""

    micros: int | None
    letter: str

    def __str__(self) -> str:
        return f"{'' if self.micros is None else self.micros}~{self.letter}"

    @classmethod
    def of(cls, text: str) -> Place | None:
        """None where the text is no place."""
        micros, _, letter = text.partition("~")
        if not letter or (micros and _MICROS.fullmatch(micros) is None):
            return None
        return cls(int(micros) if micros else None, letter)

    def is_behind(self) -> Column:
        """Whether a letter comes behind this place. In: `failed_at`, `letter_id`."""
        at, behind = F.unix_micros("failed_at"), F.col(LETTER_ID) > self.letter
        if self.micros is None:
            return at.isNull() & behind
        return at.isNull() | (at < self.micros) | ((at == self.micros) & behind)


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
        return [(str(r["failure_code"]), str(r["status"]), int(r["letters"])) for r in counted(letters)]

    def listed(
        self, stream: str, *, code: str | None = None, status: str | None = None, after: Place | None = None
    ) -> tuple[list[Mapping[str, Any]], Place | None]:
        """The newest letters behind `after`, without their payloads, and the place of the next ones if there
        are more.
        """
        letters = self._letters(stream)
        if letters is None:
            return [], None
        if code:
            letters = letters.where(F.col("failure_code") == code)
        if status:
            letters = letters.where(F.col("status") == status)
        if after is not None:
            letters = letters.where(after.is_behind())
        micros = F.unix_micros("failed_at").alias("_micros")
        order = (F.col("failed_at").desc_nulls_last(), F.col(LETTER_ID))
        found = letters.select(*_LISTED, micros).orderBy(*order).limit(MOST_LISTED + 1).collect()
        page: list[Mapping[str, Any]] = [row.asDict() for row in found[:MOST_LISTED]]
        more = len(found) > MOST_LISTED
        return page, Place(page[-1]["_micros"], page[-1][LETTER_ID]) if more else None

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
    """Tells how many dead letters are `new`, and by which codes, now and then. Raises what reading raises."""

    def __init__(
        self, desk: LetterDesk, metrics: Metrics, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._desk, self._metrics, self._monotonic = desk, metrics, monotonic
        self._due, self._changes = monotonic(), desk.changes
        self._codes: dict[str, list[tuple[str, int]]] = {}

    def codes(self, stream: str) -> list[tuple[str, int]]:
        """(code, how many are open), the most frequent first, as of the newest count."""
        return self._codes.get(stream, [])

    def count_if_due(self) -> None:
        now, changes = self._monotonic(), self._desk.changes
        if now < self._due and changes == self._changes:
            return
        self._due, self._changes = now + COUNTED_EVERY, changes
        for stream in self._desk.streams:
            tally = self._desk.tally(stream)
            self._codes[stream] = [(code, n) for code, status, n in tally if status == LetterStatus.NEW]
            waiting = sum(count for _, count in self._codes[stream])
            self._metrics.set("tidemark_dead_letters_open", waiting, stream=stream)


def _literal(text: str) -> str:
    """The text as SQL writes it, so that the note of an edit can be read.

    `${…}` would be replaced by Spark, with a setting or an environment variable, even within quotes.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"
