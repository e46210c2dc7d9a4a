"""What many small batches leave behind, and what each setting against small files costs and saves.

Run it with `python bench/small_files.py [batches]`. Each batch appends rows of four COB dates from two tasks
as a ledger commit: eight files where nothing is set. Measured at the end of the same batches under
each setting: files and megabytes of the newest version, the middle batch of the first and of the last fifth,
the seconds of all batches with the upkeep among them, and those of reading the table as a new reader does.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.platform.session import local_session
from tidemark.sink import table as tables
from tidemark.sink.append import append

T = TypeVar("T")
ROWS = 400
DATES = 4
TASKS = 2
OPTIMIZED_WRITE = {"delta.autoOptimize.optimizeWrite": "true"}
AUTO_COMPACTION = {"delta.autoOptimize.autoCompact": "true"}
UPKEEP = "maintain each 20"
SETTINGS: dict[str, dict[str, str]] = {
    "nothing set": {},
    "optimizeWrite": OPTIMIZED_WRITE,
    "autoCompact": AUTO_COMPACTION,
    "both": OPTIMIZED_WRITE | AUTO_COMPACTION,
    UPKEEP: {},
    f"optimizeWrite, {UPKEEP}": OPTIMIZED_WRITE,
}


@dataclass
class Measured:
    files: int
    megabytes: float
    all_seconds: float
    read_seconds: float
    batches: list[float] = field(repr=False)

    def middle_of_fifth(self, which: int) -> float:
        size = max(1, len(self.batches) // 5)
        return statistics.median(self.batches[-size:] if which < 0 else self.batches[:size])


def rows(spark: SparkSession, batch: int) -> DataFrame:
    number = F.col("id").cast("bigint")
    return spark.range(batch * ROWS, (batch + 1) * ROWS, 1, TASKS).select(
        number.alias("id"),
        F.concat(F.lit("order number "), number.cast("string"), F.lit(" of the day")).alias("name"),
        F.lit("topic").alias("stream_topic_id"),
        F.lit(0).alias("stream_partition"),
        number.alias("stream_offset"),
        F.timestamp_seconds(number).alias("message_timestamp"),
        F.date_add(F.lit("2026-03-01").cast("date"), F.pmod(number, F.lit(DATES)).cast("int")).alias(
            "cob_date"
        ),
    )


def measure(spark: SparkSession, setting: str, folder: Path, batches: int) -> Measured:
    table = TableRef(path=str(folder / setting.replace(" ", "-").replace(",", "")))
    destination = Destination(
        bucket=str(folder), path="t", partition_columns=("cob_date",), properties=SETTINGS[setting]
    )
    tables.create(spark, table, rows(spark, 0).schema, destination)
    seconds: list[float] = []
    base, background = 0, 0.0
    for batch in range(batches):
        own = LedgerCommit(
            kind=CommitKind.BATCH,
            stream="bench",
            topic_id="topic",
            token=f"run/{batch}/1",
            seq=batch + 1,
            base=base,
            marks=Marks({0: (batch + 1) * ROWS}),
        )
        took, commit = _timed(lambda own=own, batch=batch: append(rows(spark, batch), table, own))
        base = commit.version
        seconds.append(took)
        if setting.endswith(UPKEEP) and batch % 20 == 19:
            background += _timed(lambda: spark.sql(f"OPTIMIZE {table.sql}").collect())[0]
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").first()
    assert detail is not None
    reads = [_timed(lambda: _read(spark, table))[0] for _ in range(4)][1:]
    return Measured(
        detail["numFiles"],
        detail["sizeInBytes"] / 1e6,
        sum(seconds) + background,
        statistics.median(reads),
        seconds,
    )


def _read(spark: SparkSession, table: TableRef) -> None:
    columns = [F.max(F.xxhash64("id", "name", "message_timestamp")), F.count("*")]
    spark.read.format("delta").load(str(table.path)).agg(*columns).collect()


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def main(batches: int) -> None:
    spark = local_session("tidemark-bench-small-files", master="local[2]")
    with tempfile.TemporaryDirectory() as name:
        measure(spark, "nothing set", Path(name) / "warm-up", 10)
        found = {setting: measure(spark, setting, Path(name), batches) for setting in SETTINGS}
    report(batches, found)
    spark.stop()


def report(batches: int, found: dict[str, Measured]) -> None:
    base = found["nothing set"]
    table = Table(
        *(
            "setting",
            "files",
            "MB",
            "first batches, s",
            "last batches, s",
            "all, s",
            "ratio",
            "read, s",
            "ratio",
        ),
        title=f"{batches} batches of {ROWS} rows, {DATES} dates, {TASKS} tasks",
    )
    for setting, m in found.items():
        table.add_row(
            setting,
            f"{m.files:,}",
            f"{m.megabytes:.1f}",
            f"{m.middle_of_fifth(0):.2f}",
            f"{m.middle_of_fifth(-1):.2f}",
            f"{m.all_seconds:.1f}",
            f"{m.all_seconds / base.all_seconds:.2f}",
            f"{m.read_seconds:.2f}",
            f"{m.read_seconds / base.read_seconds:.2f}",
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
