"""Files and seconds per batch of many small batches, under Delta's settings against small files.

Usage: python bench/small_files.py [BATCHES]. Each batch appends one row to each of four COB dates from four
tasks, as own commits. Printed: files of the newest version, median seconds of the first and the last tenth.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind, OwnCommit
from tidemark.platform.session import local_session
from tidemark.sink import table as tables
from tidemark.sink.append import append

SETTINGS: dict[str, dict[str, str]] = {
    "none": {},
    "optimizeWrite": {"delta.autoOptimize.optimizeWrite": "true"},
    "autoCompact": {"delta.autoOptimize.autoCompact": "true"},
    "both": {"delta.autoOptimize.optimizeWrite": "true", "delta.autoOptimize.autoCompact": "true"},
    "OPTIMIZE every 20": {},
}


def rows(spark: SparkSession, batch: int) -> DataFrame:
    number = F.col("id").cast("bigint")
    return spark.range(batch * 16, batch * 16 + 16, 1, 4).select(
        F.lit("topic").alias("stream_topic_id"),
        F.lit(0).alias("stream_partition"),
        number.alias("stream_offset"),
        F.timestamp_seconds(number).alias("message_timestamp"),
        F.date_add(F.lit("2026-03-01").cast("date"), F.pmod(number, F.lit(4)).cast("int")).alias("cob_date"),
    )


def measured(spark: SparkSession, name: str, folder: Path, batches: int) -> tuple[int, float, float]:
    table = TableRef(path=str(folder / uuid.uuid4().hex))
    destination = Destination(
        bucket=str(folder), path="t", partition_columns=("cob_date",), properties=SETTINGS[name]
    )
    tables.create(spark, table, rows(spark, 0).schema, destination)
    seconds, base = [], 0
    for batch in range(batches):
        own = OwnCommit(
            kind=CommitKind.BATCH,
            stream="s",
            topic_id="topic",
            token=f"run/{batch}/1",
            seq=batch + 1,
            base=base,
            marks=Marks({0: batch * 16 + 16}),
        )
        began = time.perf_counter()
        base = append(rows(spark, batch), table, own).version
        seconds.append(time.perf_counter() - began)
        if name.startswith("OPTIMIZE") and batch % 20 == 19:
            spark.sql(f"OPTIMIZE {table.sql}").collect()
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").first()
    assert detail is not None
    tenth = max(3, batches // 10)
    return detail["numFiles"], statistics.median(seconds[:tenth]), statistics.median(seconds[-tenth:])


def main(batches: int) -> None:
    spark = local_session("small-files")
    picture = Table("setting", "files", "first batches, s", "last batches, s", title=f"{batches} batches")
    with tempfile.TemporaryDirectory() as folder:
        measured(spark, "none", Path(folder), 5)
        for name in SETTINGS:
            files, first, last = measured(spark, name, Path(folder), batches)
            picture.add_row(name, f"{files:,}", f"{first:.2f}", f"{last:.2f}")
    Console(width=100).print(picture)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
