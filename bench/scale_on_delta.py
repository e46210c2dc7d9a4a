"""Far more partitions and files than one machine has, on a real Delta log: `python bench/scale.py --delta`.

Marks of thousands of partitions are committed for real, by empty ledger commits. Files are only named: the log
is given commits that add as many as the table would have, with the statistics of a real one.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from rich.console import Console
from rich.table import Table
from samples import DDL

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract import records
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.new_offsets import IS_NEW, Bounds, new_offsets_of, with_is_new
from tidemark.platform.session import local_session
from tidemark.sink.append import append_nothing
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.table import create
from tidemark.sink.table_log import DeltaLog

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

PARTITIONS = (64, 1_000, 10_000)
COMMITS = 22
"""One more than a checkpoint of the log takes, and than a start reads."""
FILES_A_COMMIT = 10_000
COMMITS_OF_FILES = (1, 10, 50)
COLUMNS = (
    f"{DDL}, {records.TOPIC_ID} STRING, {records.PARTITION} INT, {records.OFFSET} BIGINT,"
    f" {records.TIMESTAMP} TIMESTAMP"
)


def measure(console: Console, folder: Path) -> None:
    spark = local_session(
        "tidemark-bench-scale", master="local[2]", extra_conf={"spark.local.dir": str(folder / "spark")}
    )
    console.print(_marks(spark, folder))
    console.print(_recovery(spark))
    console.print(_files(spark, folder))
    spark.stop()


@cache
def _schema() -> T.StructType:
    """Parsed by Spark, so not before there is a session."""
    parsed = T.StructType.fromDDL(COLUMNS)
    assert isinstance(parsed, T.StructType)
    return parsed


def ledger_commit(number: int, base: int, partitions: int) -> LedgerCommit:
    marks = Marks({p: 10_000_000_000 + p * 7 for p in range(partitions)})
    return LedgerCommit(
        kind=CommitKind.BATCH,
        stream="user-events",
        topic_id="XZKnVropQqqxaaYyeSpY6Q",
        token=f"{'a' * 12}/{number}/1",
        seq=number,
        base=base,
        marks=marks,
        published=marks,
        high_water=marks,
    )


def _table(spark: SparkSession, folder: Path, name: str) -> TableRef:
    table = TableRef(path=str(folder / name))
    create(spark, table, _schema(), Destination(bucket=str(folder), path=name))
    return table


def _marks(spark: SparkSession, folder: Path) -> Table:
    """Own commits of so many partitions, and what a start reads of them."""
    rendering = Table(
        *("partitions", "KB a commit", "commit, s", "read at a start, s", "more memory, MB"),
        title=f"{COMMITS} commits of marks on a real log",
    )
    for partitions in PARTITIONS:
        table = _table(spark, folder, f"marks-{partitions}")
        taken = []
        for number in range(1, COMMITS + 1):
            own, began = ledger_commit(number, number - 1, partitions), time.monotonic()
            append_nothing(spark, table, own, _schema())
            taken.append(time.monotonic() - began)
        size = (folder / f"marks-{partitions}" / "_delta_log" / f"{COMMITS:020}.json").stat().st_size
        before, began = psutil.Process().memory_info().rss, time.monotonic()
        state = read_state(DeltaLog(spark, table))
        read = time.monotonic() - began
        more = (psutil.Process().memory_info().rss - before) / 1e6
        assert len(state.marks) == partitions
        rendering.add_row(
            *(f"{partitions:,}", f"{size / 1e3:,.1f}", f"{sorted(taken)[COMMITS // 2]:.2f}"),
            *(f"{read:.2f}", f"{more:,.0f}"),
        )
    return rendering


def _recovery(spark: SparkSession) -> Table:
    """After a crash a batch's filter names the marks of each partition."""
    rendering = Table("partitions", "made, s", "analysed and planned, s", title="the filter after a crash")
    batch = spark.createDataFrame([], _schema())
    for partitions in PARTITIONS:
        start = Marks({p: 1_000 for p in range(partitions)})
        ends = Marks({p: 2_000 for p in range(partitions)})
        middle = Marks({p: 1_500 for p in range(partitions)})
        began = time.monotonic()
        new_offsets = new_offsets_of(
            Bounds(start, ends), LedgerState(1, marks=middle, published=start, high_water=middle)
        )
        routed = with_is_new(batch.withColumn(IS_NEW, F.lit(True)), new_offsets)
        made = time.monotonic() - began
        routed.where("is_new").collect()
        rendering.add_row(f"{partitions:,}", f"{made:.2f}", f"{time.monotonic() - began - made:.2f}")
    return rendering


def _files(spark: SparkSession, folder: Path) -> Table:
    """Commits that add ten thousand files each, and what the stream does on such a table."""
    rendering = Table(
        *(
            "live files",
            "MB of log",
            "bytes a file",
            "first look at the table, s",
            "a ledger commit after it, s",
        ),
        title=f"{FILES_A_COMMIT:,} files a commit",
    )
    for commits in COMMITS_OF_FILES:
        name = f"files-{commits}"
        table = _table(spark, folder, name)
        log = folder / name / "_delta_log"
        lines = _commit_with_a_file(spark, table, log)
        for number in range(2, commits + 2):
            _many_files(log / f"{number:020}.json", lines)
        size = sum((log / f"{n:020}.json").stat().st_size for n in range(2, commits + 2))
        # Another path to the same log: nothing of it is in memory yet.
        elsewhere = folder / f"{name}-again"
        (folder / name).rename(elsewhere)
        table = TableRef(path=str(elsewhere))
        began = time.monotonic()
        spark.read.format("delta").load(str(elsewhere)).where(f"{records.OFFSET} < 0").count()
        first = time.monotonic() - began
        began = time.monotonic()
        append_nothing(spark, table, ledger_commit(commits + 2, commits + 1, 64), _schema())
        own = time.monotonic() - began
        files = commits * FILES_A_COMMIT
        rendering.add_row(
            *(f"{files:,}", f"{size / 1e6:,.0f}", f"{size / files:,.0f}", f"{first:.1f}", f"{own:.1f}")
        )
        shutil.rmtree(elsewhere)
    return rendering


def _commit_with_a_file(spark: SparkSession, table: TableRef, log: Path) -> list[dict[str, Any]]:
    """Version 1: one real file, whose log entry the others are made of."""
    values = (
        "'u', 'click', 1.25BD, 1, timestamp'2024-07-01T12:00:00Z', date'2024-07-01', 0.5D, true, 'note', 7L,"
        " 'XZKnVropQqqxaaYyeSpY6Q', 3, 10000000000L, timestamp'2024-07-01T12:00:00.123Z'"
    )
    spark.sql(f"INSERT INTO {table.sql} VALUES ({values})")
    return [json.loads(line) for line in (log / f"{1:020}.json").read_text().splitlines()]


def _many_files(commit: Path, lines: list[dict[str, Any]]) -> None:
    add = next(line["add"] for line in lines if "add" in line)
    others = [json.dumps(line) for line in lines if "add" not in line]
    number = int(commit.stem)
    made = [
        json.dumps(
            {"add": {**add, "path": f"part-{n:05}-{number:08}-0000-0000-0000-{n:012}.c000.snappy.parquet"}}
        )
        for n in range(FILES_A_COMMIT)
    ]
    commit.write_text("\n".join([*others, *made]) + "\n")
