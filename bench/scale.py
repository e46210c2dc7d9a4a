"""The ledger's size by simulation: what the marks of so many partitions add to each commit.

`python bench/scale.py` prints the table of docs/scale.md. It needs neither Spark nor a broker: it makes
the entries that own commits carry, with the longest that they can be: three full vectors.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table

from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind, OwnCommit

PARTITIONS = (6, 64, 1_000, 10_000)
COMMITS_A_DAY = 1_440
FIRST_PAGE = 20
"""Entries of the log that a start reads first."""
REPEATS = 5


def entry(partitions: int) -> OwnCommit:
    marks = Marks({p: 10_000_000_000 + p * 7 for p in range(partitions)})
    return OwnCommit(
        kind=CommitKind.BATCH,
        stream="user-events",
        topic_id="XZKnVropQqqxaaYyeSpY6Q",
        token=f"{'a' * 12}/1000/1",
        seq=1000,
        base=999,
        marks=marks,
        done=marks,
        ceiling=marks,
        checkpoint="kafka-native-0000000001-a37b3a5c",
        counts={"accepted": 1, "rejected": 1, "skipped": 1, "duplicate": 1},
        table_id="0" * 36,
    )


def main() -> None:
    columns = (
        "partitions",
        "bytes a commit",
        "MB a day",
        "GB in 30 days",
        "MB at start",
        "read ms",
        "write ms",
    )
    picture = Table(*columns, title=f"{COMMITS_A_DAY:,} commits a day")
    for partitions in PARTITIONS:
        own = entry(partitions)
        text = own.to_json()
        # In the log the entry is text inside JSON: each of its quotes takes two bytes.
        size = len(json.dumps({"userMetadata": text}, separators=(",", ":")))
        day = size * COMMITS_A_DAY
        picture.add_row(
            f"{partitions:,}",
            f"{size:,}",
            f"{day / 1e6:,.1f}",
            f"{day * 30 / 1e9:,.2f}",
            f"{size * FIRST_PAGE / 1e6:,.2f}",
            f"{_milliseconds(partial(OwnCommit.from_json, text)):.2f}",
            f"{_milliseconds(own.to_json):.2f}",
        )
    Console().print(picture)


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
