"""The operations on the dead letters of a stream, for the command, the console, notebooks and jobs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.config.settings import Settings
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.dlq_table.query import dead_letter_target, keep_dead_letters, start_dead_letters
from tidemark.dead_letters.dlq_table.table import DeadLetterTable, event
from tidemark.dead_letters.files import collectable, export, import_dead_letters
from tidemark.dead_letters.listing import Listed, Place, Tally, listed, page_of, tally_of
from tidemark.dead_letters.replay import Replay, ReplayResult
from tidemark.dead_letters.republish import republish
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.platform.kept_rows import kept
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.target import Target

ALL = tuple(DeadLetterStatus)


@dataclass(frozen=True)
class DeadLetters:
    """The dead letters of one stream. Reading them raises UsageError while there is no DLQ table."""

    spark: SparkSession
    settings: Settings
    target: Target

    @classmethod
    def of(cls, spark: SparkSession, settings: Settings, stream: str) -> DeadLetters:
        """Raises ConfigError for a stream that is not configured, or that only lands raw records."""
        return cls(spark, settings, dead_letter_target(spark, settings, stream, run=uuid.uuid4().hex))

    @property
    def table(self) -> DeadLetterTable:
        return DeadLetterTable(self.target.table)

    def start(self, *, available_now: bool) -> StreamingQuery | None:
        """Starts the query that feeds the table from the DLQ topic; None while there is no such topic."""
        return start_dead_letters(self.spark, self.settings, self.target, available_now=available_now)

    def catch_up(self) -> None:
        """Brings the table up to the end of the DLQ topic."""
        keep_dead_letters(self.spark, self.settings, self.target)

    def all(self) -> DataFrame:
        """`DeadLetterTable.dead_letters`."""
        if not self.table.exists(self.spark):
            raise UsageError(
                f"there is no table {self.table.facts} yet",
                f"tidemark dead-letters stream --stream {self.target.name} --available-now",
            )
        return self.table.dead_letters(self.spark)

    def tally(self, selection: Selection) -> list[Tally]:
        """The counts of the chosen dead letters by code and status."""
        return tally_of(selection.of(self.all()))

    def listed(self, selection: Selection) -> list[Listed]:
        """The chosen dead letters, the oldest first under a limit."""
        return listed(selection.of(self.all()))

    def page(self, selection: Selection, most: int, after: Place | None) -> tuple[list[Listed], Place | None]:
        """The newest of the chosen dead letters behind `after`, and the place of the next ones."""
        return page_of(selection.of(self.all()), most, after=after)

    def show(self, dead_letter: str) -> Mapping[str, Any]:
        """The columns of one dead letter, with its payload. Raises UsageError where there is none of that id."""
        row = collectable(
            Selection(dead_letters=(dead_letter,), statuses=ALL, limit=1).of(self.all())
        ).first()
        if row is None:
            raise self._absent(dead_letter)
        return row.asDict()

    def replay(
        self,
        selection: Selection,
        *,
        edit: PayloadEdit | None = None,
        dry_run: bool = False,
        by: str,
        progress: Callable[[str], None] = lambda step: None,
    ) -> ReplayResult:
        """Replays the chosen dead letters straight into the table."""
        admin = KafkaAdmin(self.settings.kafka)
        how = Replay(self.spark, admin, self.target, edit=edit, dry_run=dry_run, by=by, progress=progress)
        return how.of(selection)

    def republish(
        self, selection: Selection, *, edit: PayloadEdit | None = None, dry_run: bool = False, by: str
    ) -> int:
        """Republishes to the source topic, for every group that reads it; returns how many."""
        self.all()
        return republish(self.spark, self.settings, self.target, selection, edit=edit, dry_run=dry_run, by=by)

    def mark(
        self, dead_letters: Sequence[str], status: DeadLetterStatus, *, by: str, note: str | None = None
    ) -> int:
        """Parks or discards the named dead letters, or makes them new again; returns how many.

        Raises UsageError where none of them exists.
        """
        chosen = Selection(dead_letters=tuple(dead_letters), statuses=ALL).of(self.all())
        events = kept(event(chosen, status, by=by, note=F.lit(note)))
        count = events.count()
        if not count:
            raise self._absent(", ".join(dead_letters))
        self.table.note(events)
        return count

    def export(self, selection: Selection, out: TextIO) -> int:
        """Writes the chosen dead letters as JSON lines; returns how many."""
        return export(selection.of(self.all()), out)

    def import_from(self, file: Path) -> int:
        """Adds the dead letters of an exported file that the table lacks; returns the number of its lines."""
        return import_dead_letters(self.spark, self.table, file)

    def _absent(self, named: str) -> UsageError:
        return UsageError(
            f"there is no dead letter {named} in {self.table.facts}",
            f"tidemark dead-letters list --stream {self.target.name}",
        )
