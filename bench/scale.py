"""Scale by simulation: the tables of docs/scale.md.

`python bench/scale.py` needs neither Spark nor a broker: it makes the entries that ledger commits carry, with
the longest that they can be: three full vectors. With `--delta` it commits them to a real log, and gives a
table far more files than a machine has (`scale_on_delta`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.counts import dead_letters_carried

PARTITIONS = (6, 64, 1_000, 10_000)
COMMITS_A_DAY = 1_440
FIRST_PAGE = 20
"""Entries of the log that a start reads first."""
REPEATS = 5


def entry(partitions: int) -> LedgerCommit:
    marks = Marks({p: 10_000_000_000 + p * 7 for p in range(partitions)})
    return LedgerCommit(
        kind=CommitKind.BATCH,
        stream="user-events",
        topic_id="XZKnVropQqqxaaYyeSpY6Q",
        token=f"{'a' * 12}/1000/1",
        seq=1000,
        base=999,
        marks=marks,
        published=marks,
        high_water=marks,
        checkpoint="kafka-native-0000000001-a37b3a5c",
        counts={"accepted": 1, "rejected": 1, "skipped": 1, "duplicate": 1},
        table_id="0" * 36,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delta", action="store_true")
    asked = parser.parse_args()
    console = Console(width=120)
    console.print(_marks())
    console.print(_dead_letters())
    if asked.delta:
        from scale_on_delta import measure

        with tempfile.TemporaryDirectory() as folder:
            measure(console, Path(folder))


def _marks() -> Table:
    columns = (
        *("partitions", "bytes a commit", "MB a day", "GB in 30 days", "MB at start"),
        *("read ms", "write ms", "MB held for a start", "KB of offsets a batch"),
    )
    rendering = Table(*columns, title=f"{COMMITS_A_DAY:,} commits a day")
    for partitions in PARTITIONS:
        own = entry(partitions)
        text = own.to_json()
        # In the log the entry is text inside JSON: each of its quotes takes two bytes.
        size = len(json.dumps({"userMetadata": text}, separators=(",", ":")))
        day = size * COMMITS_A_DAY
        offsets = json.dumps({"user-events": {str(p): o for p, o in own.marks.items()}})
        rendering.add_row(
            f"{partitions:,}",
            f"{size:,}",
            f"{day / 1e6:,.1f}",
            f"{day * 30 / 1e9:,.2f}",
            f"{size * FIRST_PAGE / 1e6:,.2f}",
            f"{_milliseconds(partial(LedgerCommit.from_json, text)):.2f}",
            f"{_milliseconds(own.to_json):.2f}",
            f"{_held(text):,.1f}",
            f"{len(offsets) / 1e3:,.1f}",
        )
    return rendering


def _held(text: str) -> float:
    """Megabytes of Python objects that a start holds for the entries it reads first."""
    tracemalloc.start()
    kept = [LedgerCommit.from_json(text) for _ in range(FIRST_PAGE)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / 1e6 if all(kept) else 0.0


def _dead_letters() -> Table:
    """How many bad records a batch may have before it is read a second time for them."""
    rendering = Table(
        *("tasks of a batch", "carried by a batch"),
        title="rejected records in one pass, rejected-in-memory at its highest",
    )
    for tasks in (2, 8, 200, 1_000, 10_000):
        rendering.add_row(f"{tasks:,}", f"{dead_letters_carried(10_000, tasks):,}")
    return rendering


def _milliseconds(step: Callable[[], object]) -> float:
    """CPU time of one call, the least of some."""
    taken = []
    for _ in range(REPEATS):
        began = time.process_time()
        step()
        taken.append(time.process_time() - began)
    return min(taken) * 1000


if __name__ == "__main__":
    main()
