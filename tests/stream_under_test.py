"""A stream under test: a topic on the shared broker, a table, and runs of the real ingest over them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from tests.plain_readers import messages_on, rows_of

from tidemark.config.destination import TableRef
from tidemark.config.reading.load import parse_settings
from tidemark.config.settings import Settings
from tidemark.contract import records
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import Event, StreamObserver
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, produce
from tidemark.ingest.application import Ingest, StreamOutcome
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.log_files import log_of
from tidemark.source.groups import GroupOffsets
from tidemark.source.topics import KafkaAdmin

NAME = "events"
DDL = "id INT NOT NULL, name STRING"


def good(number: int) -> bytes:
    return json.dumps({"id": number, "name": f"n{number}"}).encode()


BAD = b'{"id": "not a number"}'


@dataclass
class Reports(StreamObserver):
    """Keeps what batches came to."""

    kept: list[BatchReport]

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport):
            self.kept.append(event)


@dataclass
class StreamUnderTest:
    """One topic, one table; each `run` is a fresh application over them that ends when all is read."""

    spark: SparkSession
    broker: EmbeddedBroker
    topic: str
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)
    reports: list[BatchReport] = field(default_factory=list)

    def document(self, *, breaker: dict[str, Any] | None = None, **stream: Any) -> Mapping[str, Any]:
        """The configuration, as it would be written in a file."""
        topics = {
            NAME: {
                "kafka-topic": self.topic,
                "supported-formats": ["JSON"],
                "schema": {"ddl": DDL},
                "destination": {"bucket": str(self.folder), "path": "lake/events"},
                **self.options,
                **stream,
            }
        }
        consumer = {"group-id": f"group-{self.topic}", **self.consumer}
        return {
            "kafka": {"bootstrap-servers": self.broker.bootstrap, "consumer": consumer},
            "connector": {"topics": topics},
            "checkpoint-root": str(self.folder / "checkpoints"),
            "state-dir": str(self.folder / "state"),
            "breaker": breaker or {},
        }

    def settings(self, **options: Any) -> Settings:
        return parse_settings(json.dumps(self.document(**options)), root=self.folder)

    def ingest(self, **stream: Any) -> Ingest:
        return Ingest(
            self.spark,
            self.settings(**stream),
            available_now=True,
            observers=[Reports(self.reports)],
            sleep=lambda _: False,
        )

    def run(self, **stream: Any) -> StreamOutcome:
        self.reports.clear()
        return self.ingest(**stream).run()[0]

    def land(self, **stream: Any) -> None:
        """Run, and raise what stopped the stream."""
        outcome = self.run(**stream)
        if outcome.error is not None:
            raise outcome.error

    def produce(self, *values: bytes | SampleRecord | None) -> None:
        produce(self.broker.bootstrap, self.topic, values)

    @property
    def table(self) -> TableRef:
        return TableRef(path=str(self.folder / "lake/events"))

    @property
    def rows(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(self.table.path))

    def ids(self) -> list[int]:
        return sorted(number for (number,) in self._columns("id"))

    def _columns(self, *names: str) -> list[tuple[Any, ...]]:
        plain = rows_of(Path(str(self.table.path)), *names) if self.table.is_local else None
        return [tuple(row) for row in self.rows.select(*names).collect()] if plain is None else plain

    def holds(self, ddl: str, *rows: tuple[Any, ...]) -> None:
        """The table has these rows in these columns, and no other row."""
        expected = self.spark.createDataFrame(rows, ddl)
        there = self.rows.select(*expected.columns)
        assert_df_equality(there, expected, ignore_row_order=True, ignore_nullable=True)

    def state(self) -> LedgerState:
        return read_state(log_of(self.spark, self.table))

    def group(self) -> GroupOffsets:
        kafka = self.settings().kafka
        return GroupOffsets(KafkaAdmin(kafka), kafka.consumer.group_id)

    def ledger_commits(self) -> list[LedgerCommit]:
        """Oldest first."""
        entries = log_of(self.spark, self.table)(1000).entries
        return [e.ledger_commit for e in reversed(entries) if e.ledger_commit is not None]

    def dead_letters(self) -> list[dict[str, Any]]:
        """What is on the DLQ topic: value, key, partition and our headers, in order of their coordinates."""
        found = []
        for message in messages_on(self.broker.bootstrap, f"{self.topic}-dlq"):
            headers = message.headers() or []
            ours = {n.removeprefix("__dlq.errors."): v for n, v in headers if n.startswith("__dlq.errors.")}
            found.append(
                {
                    "value": message.value(),
                    "key": message.key(),
                    "partition": message.partition(),
                    "headers": headers,
                    **{name: None if value is None else value.decode() for name, value in ours.items()},
                }
            )
        return sorted(found, key=lambda x: (int(x["partition"]), int(x["offset"])))

    def landed(self) -> list[tuple[str, int, int]]:
        return sorted(self._columns(*records.COORDINATES))

    def accounted(self) -> set[tuple[int, int]]:
        """{coordinates in the table} ∪ {coordinates in the DLQ topic} of the current topic."""
        landed = [(p, o) for _, p, o in self.landed()]
        assert len(landed) == len(set(landed)), "a record landed twice"
        # The header says the source partition; the record's own may be another one.
        return set(landed) | {(int(x["partition"]), int(x["offset"])) for x in self.dead_letters()}


@pytest.fixture
def stream(
    spark: SparkSession, broker: EmbeddedBroker, topic: Callable[..., str], tmp_path: Path
) -> Callable[..., StreamUnderTest]:
    """Makes a stream over a new topic: `stream(partitions=2)`."""

    def make(partitions: int = 1, **options: Any) -> StreamUnderTest:
        return StreamUnderTest(spark, broker, topic(partitions=partitions), tmp_path, options)

    return make
