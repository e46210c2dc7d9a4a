"""One table of faults: produce, break, heal, then every record is accounted for and none is there twice.

All of them happen to one stream, in turn: each meets what those before it left behind.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic
from tidemark.ingest.batch import handler as batch_module


@dataclass
class Books:
    """One stream and what was produced to it: number after number, each fifth one bad."""

    events: StreamUnderTest
    produced: int = 0
    deleted: set[int] = field(default_factory=set)

    def produce(self, count: int) -> None:
        numbers = range(self.produced, self.produced + count)
        self.events.produce(*[BAD if i % 5 == 4 else good(i) for i in numbers])
        self.produced += count

    def check(self) -> None:
        """Raises AssertionError unless each record is in one place, once."""
        good_ones = [i for i in range(self.produced) if i % 5 != 4 and i not in self.deleted]
        assert self.events.ids() == good_ones
        assert len(self.events.accounted()) == self.produced - len(self.deleted)


Break = Callable[[Books], None]


@dataclass(frozen=True)
class Fault:
    """`between` breaks something while the stream is down, `during` while a batch is about to commit."""

    name: str
    between: Break | None = None
    during: Break | None = None
    clock: timedelta = timedelta()


def checkpoint_files(books: Books, kind: str) -> list[Path]:
    """Oldest first; of the newest checkpoint."""
    checkpoints = sorted(
        (books.events.folder / "checkpoints/events").iterdir(), key=lambda p: p.stat().st_mtime
    )
    return sorted(
        (f for f in (checkpoints[-1] / kind).iterdir() if f.name.isdigit()), key=lambda f: int(f.name)
    )


def older_copy(books: Books) -> None:
    """The checkpoint as it was one run ago."""
    checkpoints, kept = books.events.folder / "checkpoints", books.events.folder / "kept"
    shutil.copytree(checkpoints, kept)
    books.produce(10)
    books.events.land()
    shutil.rmtree(checkpoints)
    kept.rename(checkpoints)


def table(books: Books) -> DeltaTable:
    return DeltaTable.forPath(books.events.spark, str(books.events.table.path))


def optimize(books: Books) -> None:
    table(books).optimize().executeCompaction()


def delete(books: Books) -> None:
    table(books).delete("id = 0")
    books.deleted.add(0)


def merge(books: Books) -> None:
    names = books.events.spark.sql("SELECT 1 AS id, 'renamed' AS name")
    target = table(books).alias("t").merge(names.alias("s"), "t.id = s.id")
    target.whenMatchedUpdate(set={"name": "s.name"}).execute()


def add_column(books: Books) -> None:
    books.events.spark.sql(f"ALTER TABLE {books.events.table.sql} ADD COLUMNS (more STRING)")


def truncate(file: Path) -> None:
    file.write_text("")
    # The checksum that Hadoop's local file system keeps beside it would tell first.
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def delete_whole(books: Books) -> None:
    file = checkpoint_files(books, "commits")[-1]
    truncate(file)
    file.unlink()


FAULTS = [
    Fault("checkpoint: last commit deleted", lambda b: checkpoint_files(b, "commits")[-1].unlink()),
    Fault("checkpoint: last commit and its checksum deleted", delete_whole),
    Fault("checkpoint: last commit empty", lambda b: truncate(checkpoint_files(b, "commits")[-1])),
    Fault("checkpoint: last offsets empty", lambda b: truncate(checkpoint_files(b, "offsets")[-1])),
    Fault("checkpoint: replaced by an older copy", older_copy),
    Fault("another one's OPTIMIZE", during=optimize),
    Fault("another one's OPTIMIZE while it was stopped", optimize),
    Fault("another one's VACUUM", during=lambda b: table(b).vacuum()),
    Fault("another one's DELETE", during=delete),
    Fault("another one's MERGE", during=merge),
    Fault("another one's ALTER TABLE", during=add_column),
    Fault("the clock goes back a year", clock=timedelta(days=-365)),
    Fault("the clock goes on a year", clock=timedelta(days=365)),
]


@pytest.fixture(scope="module")
def books(spark: SparkSession, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Books:
    """A stream that landed two batches."""
    create_topic(broker.bootstrap, "one-table-of-faults", 1)
    folder = tmp_path_factory.mktemp("faults")
    books = Books(StreamUnderTest(spark, broker, "one-table-of-faults", folder))
    for _ in range(2):
        books.produce(5)
        books.events.land()
    return books


@pytest.mark.guarantee(
    "case: schema-06",
    "case: checkpoint-03",
    "case: ops-01",
    "case: ops-02",
    "bad day: checkpoint: commit deleted or emptied, older copy",
    "bad day: OPTIMIZE, VACUUM, DELETE, MERGE, ALTER TABLE of others",
    "bad day: clock jumps",
    "fault: The checkpoint loses its newest commit or offsets, or an older copy takes its place; "
    "others run OPTIMIZE, VACUUM, DELETE or MERGE; the clock jumps by a year → "
    "The stream goes on in the same run; every record is accounted for, none twice",
)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_every_record_is_accounted_for_and_none_is_there_twice_when_there_was(
    books: Books, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    if fault.between is not None:
        fault.between(books)
    original = batch_module.IngestBatch._append
    broken: list[bool] = []

    def append_after(self: batch_module.IngestBatch, *args: object) -> object:
        if fault.during is not None and not broken:
            broken.append(True)
            fault.during(books)
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, "_append", append_after)
    books.produce(10)
    ingest = books.events.ingest()
    ingest.now = lambda: datetime.now(UTC) + fault.clock
    began = time.monotonic()
    (outcome,) = ingest.run()
    assert outcome.error is None
    assert broken == ([True] if fault.during else [])
    sys.stdout.write(f"{fault.name}: recovered in {time.monotonic() - began:.1f} s\n")
    books.check()
    books.produce(5)
    books.events.land()
    books.check()
