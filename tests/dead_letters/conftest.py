"""Dead letters of a stream under test: its DLQ table, and replays of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import Row
from tests.stream_under_test import NAME, StreamUnderTest, stream  # noqa: F401  # a fixture

from tidemark.contract.dead_letters import DEAD_LETTER_ID
from tidemark.dead_letters.dlq_table.query import dead_letter_target, keep_dead_letters
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dead_letters.files import collectable
from tidemark.dead_letters.replay import Replay, ReplayResult
from tidemark.dead_letters.selection import Selection
from tidemark.source.topics import KafkaAdmin


@dataclass
class DeadLetters:
    stream: StreamUnderTest

    @property
    def table(self) -> DeadLetterTable:
        return DeadLetterTable(self.stream.table)

    def keep(self, **options: Any) -> None:
        """Bring the DLQ table up to the end of the DLQ topic."""
        settings = self.stream.settings(**options)
        target = dead_letter_target(self.stream.spark, settings, NAME, run=uuid.uuid4().hex)
        keep_dead_letters(self.stream.spark, settings, target)

    def replay(
        self, selection: Selection | None = None, *, options: dict[str, Any] | None = None, **how: Any
    ) -> ReplayResult:
        settings = self.stream.settings(**(options or {}))
        target = dead_letter_target(self.stream.spark, settings, NAME, run=uuid.uuid4().hex)
        one = Replay(self.stream.spark, KafkaAdmin(settings.kafka), target, **how)
        return one.of(selection or Selection())

    def rows(self) -> list[Row]:
        return sorted(
            collectable(self.table.dead_letters(self.stream.spark)).collect(),
            key=lambda r: (r["stream_partition"], r["stream_offset"]),
        )

    def statuses(self) -> list[tuple[int, str]]:
        """(offset, status) of each dead letter, in order."""
        return [(row["stream_offset"], row["status"]) for row in self.rows()]

    def ids(self) -> list[str]:
        return [row[DEAD_LETTER_ID] for row in self.rows()]


@pytest.fixture
def dead_letters() -> Callable[[StreamUnderTest], DeadLetters]:
    return DeadLetters
