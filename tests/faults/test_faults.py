"""One table of faults: produce, break, heal, then every record is accounted for and none is there twice."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.pipeline import batch as batch_module

Make = Callable[..., StreamUnderTest]
Break = Callable[[StreamUnderTest], None]


@dataclass(frozen=True)
class Fault:
    """`between` breaks something while the stream is down, `during` while a batch is about to commit."""

    name: str
    between: Break | None = None
    during: Callable[[StreamUnderTest], None] | None = None
    clock: timedelta = timedelta()
    deleted: frozenset[int] = frozenset()


def checkpoint_files(events: StreamUnderTest, kind: str) -> list[Path]:
    """Oldest first; of the newest checkpoint."""
    checkpoints = sorted((events.folder / "checkpoints/events").iterdir(), key=lambda p: p.stat().st_mtime)
    return sorted(
        (f for f in (checkpoints[-1] / kind).iterdir() if f.name.isdigit()), key=lambda f: int(f.name)
    )


def older_copy(events: StreamUnderTest) -> None:
    """The checkpoint as it was one run ago."""
    kept = events.folder / "kept"
    shutil.copytree(events.folder / "checkpoints", kept)
    events.produce(*numbered(10, 20))
    events.land()
    shutil.rmtree(events.folder / "checkpoints")
    kept.rename(events.folder / "checkpoints")


def table(events: StreamUnderTest) -> DeltaTable:
    return DeltaTable.forPath(events.spark, str(events.table.path))


def merge(events: StreamUnderTest) -> None:
    names = events.spark.sql("SELECT 1 AS id, 'renamed' AS name")
    target = table(events).alias("t").merge(names.alias("s"), "t.id = s.id")
    target.whenMatchedUpdate(set={"name": "s.name"}).execute()


def add_column(events: StreamUnderTest) -> None:
    events.spark.sql(f"ALTER TABLE {events.table.sql} ADD COLUMNS (more STRING)")


def truncate(file: Path) -> None:
    file.write_text("")
    # The checksum that Hadoop's local file system keeps beside it would tell first.
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def numbered(start: int, end: int) -> list[bytes]:
    """Each fifth one is bad."""
    return [BAD if i % 5 == 4 else good(i) for i in range(start, end)]


def delete_whole(events: StreamUnderTest) -> None:
    file = checkpoint_files(events, "commits")[-1]
    truncate(file)
    file.unlink()


FAULTS = [
    Fault("checkpoint: last commit deleted", lambda e: checkpoint_files(e, "commits")[-1].unlink()),
    Fault("checkpoint: last commit and its checksum deleted", delete_whole),
    Fault("checkpoint: last commit empty", lambda e: truncate(checkpoint_files(e, "commits")[-1])),
    Fault("checkpoint: last offsets empty", lambda e: truncate(checkpoint_files(e, "offsets")[-1])),
    Fault("checkpoint: replaced by an older copy", older_copy),
    Fault("another one's OPTIMIZE", during=lambda e: table(e).optimize().executeCompaction()),
    Fault("another one's VACUUM", during=lambda e: table(e).vacuum()),
    Fault("another one's DELETE", during=lambda e: table(e).delete("id = 0"), deleted=frozenset([0])),
    Fault("another one's MERGE", during=merge),
    Fault("another one's ALTER TABLE", during=add_column),
    Fault("the clock goes back a year", clock=timedelta(days=-365)),
    Fault("the clock goes on a year", clock=timedelta(days=365)),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_every_record_is_accounted_for_and_none_is_there_twice_when_there_was(
    stream: Make, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    events = stream()
    events.produce(*numbered(0, 5))
    events.land()
    events.produce(*numbered(5, 10))
    events.land()
    if fault.between is not None:
        fault.between(events)
    original = batch_module.IngestBatch._append
    broken: list[bool] = []

    def append_after(self: batch_module.IngestBatch, *args: object) -> object:
        if fault.during is not None and not broken:
            broken.append(True)
            fault.during(events)
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, "_append", append_after)
    events.produce(*numbered(20, 30))
    ingest = events.ingest()
    ingest.now = lambda: datetime.now(UTC) + fault.clock
    began = time.monotonic()
    (outcome,) = ingest.run()
    assert outcome.error is None
    assert broken == ([True] if fault.during else [])
    sys.stdout.write(f"{fault.name}: recovered in {time.monotonic() - began:.1f} s\n")
    events.land()
    numbers = [*range(10), *(range(10, 20) if fault.between is older_copy else ()), *range(20, 30)]
    assert events.ids() == [i for i in numbers if i % 5 != 4 and i not in fault.deleted]
    assert len(events.accounted()) == len(numbers) - len(fault.deleted)
