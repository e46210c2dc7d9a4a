"""Letters of a stream under test: its DLQ table, and replays of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import Row
from tests.stream_under_test import NAME, StreamUnderTest, stream  # noqa: F401  # a fixture

from tidemark.contract.dead_letters import LETTER_ID
from tidemark.dead_letters.files import collectable
from tidemark.dead_letters.replay import Replayed, replay
from tidemark.dead_letters.selection import Choice
from tidemark.dead_letters.table import LetterTable
from tidemark.dead_letters.table_query import keep_letters, letter_target
from tidemark.source.topics import KafkaAdmin


@dataclass
class Letters:
    stream: StreamUnderTest

    @property
    def table(self) -> LetterTable:
        return LetterTable(self.stream.table)

    def keep(self, **options: Any) -> None:
        """Bring the DLQ table up to the end of the DLQ topic."""
        settings = self.stream.settings(**options)
        target = letter_target(self.stream.spark, settings, NAME, run=uuid.uuid4().hex)
        keep_letters(self.stream.spark, settings, target)

    def replay(
        self, choice: Choice | None = None, *, options: dict[str, Any] | None = None, **how: Any
    ) -> Replayed:
        settings = self.stream.settings(**(options or {}))
        target = letter_target(self.stream.spark, settings, NAME, run=uuid.uuid4().hex)
        return replay(self.stream.spark, KafkaAdmin(settings.kafka), target, choice or Choice(), **how)

    def rows(self) -> list[Row]:
        return sorted(
            collectable(self.table.letters(self.stream.spark)).collect(),
            key=lambda r: (r["stream_partition"], r["stream_offset"]),
        )

    def statuses(self) -> list[tuple[int, str]]:
        """(offset, status) of each letter, in order."""
        return [(row["stream_offset"], row["status"]) for row in self.rows()]

    def ids(self) -> list[str]:
        return [row[LETTER_ID] for row in self.rows()]


@pytest.fixture
def letters() -> Callable[[StreamUnderTest], Letters]:
    return Letters
