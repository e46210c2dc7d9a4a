"""What strict decoding costs over a plain `from_json`, in turn, on the same records, into Delta.

Run it with `python bench/decode.py [records]`. Four ways of the same batch, after a warm-up of each:

* plain: `from_json` with Spark's defaults and an append, which checks nothing;
* strict: `transform` and an append of the accepted rows;
* strict with faults: the same with one record in a thousand bad in various ways;
* strict, CSV: the same records as lines of CSV.

CPU seconds are those of this process, the JVM and Spark's Python workers: on a busy machine they say more than the time
that went by.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from meter import cpu_seconds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from tidemark.config.stream import Stream
from tidemark.contract import records
from tidemark.platform.session import local_session
from tidemark.transform import DecodePlan, decode_plan, transform

DDL = """user_id STRING NOT NULL, event_type STRING, amount DECIMAL(10,2), quantity INT, 
         occurred_at TIMESTAMP, cob DATE, price DOUBLE, active BOOLEAN, note STRING, session BIGINT"""
GOOD = (
    '{"user_id":"u-%d","event_type":"click","amount":%d.25,"quantity":%d,"occurred_at":"2024-07-01T12:%02d:%02d.123Z",'
    '"cob":"2024-07-01","price":%d.5,"active":true,"note":"order number %d of the day","session":%d}'
)
LINE = "u-%d,click,%d.25,%d,2024-07-01T12:%02d:%02d.123Z,2024-07-01,%d.5,true,order number %d of the day,%d"
BAD = (
    '{"user_id":"u","quantity":"many"}',
    '{"user_id":"u","amount":1.005}',
    '{"user_id":1,"user_id":2}',
    '{"x":',
)
ROUNDS = 5
KEPT = (records.TOPIC_ID, records.PARTITION, records.OFFSET, records.TIMESTAMP, records.TOPIC)


def make_records(
    spark: SparkSession, count: int, folder: Path, *, bad_every: int | None = None, made: str = GOOD
) -> DataFrame:
    """Envelopes of about 200 bytes each, in two files."""
    number = "id % 1000, id % 50, id % 60, id % 60, id % 900, id, id * 7"
    text = f"format_string('{made}', id, {number})"
    if bad_every is not None:
        listed = ", ".join("'" + b + "'" for b in BAD)
        which = f"cast(id div {bad_every} % {len(BAD)} + 1 as int)"
        text = f"if(id % {bad_every} = 0, element_at(array({listed}), {which}), {text})"
    path = str(folder / f"records-{bad_every}-{made == GOOD}")
    spark.range(0, count, 1, 2).selectExpr(
        f"'orders' {records.TOPIC}",
        f"'topic-1' {records.TOPIC_ID}",
        f"0 {records.PARTITION}",
        f"id {records.OFFSET}",
        f"timestamp'2024-07-01T12:00:00Z' {records.TIMESTAMP}",
        f"'create_time' {records.TIMESTAMP_TYPE}",
        f"cast(null as binary) {records.KEY}",
        f"cast({text} as binary) {records.PAYLOAD}",
        f"cast(null as {records.HEADERS_DDL}) {records.HEADERS}",
    ).write.parquet(path)
    return spark.read.parquet(path)


def plain(envelopes: DataFrame) -> DataFrame:
    parsed = F.from_json(F.col(records.PAYLOAD).cast("string"), DDL.replace(" NOT NULL", ""))
    return envelopes.select(parsed.alias("j"), *KEPT).select("j.*", *KEPT)


def strict(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    return transform(envelopes, plan).where(F.col(records.ROUTE) == "accepted").select(f"{records.ROW}.*")


def taken_by(make: Callable[[], DataFrame], folder: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of one append into a table of its own."""
    target = folder / "table"
    shutil.rmtree(target, ignore_errors=True)
    start, cpu = time.perf_counter(), cpu_seconds(frozenset())
    make().write.format("delta").save(str(target))
    return time.perf_counter() - start, cpu_seconds(frozenset()) - cpu


def plan_of(spark: SparkSession, form: str) -> DecodePlan:
    stream = {"kafka-topic": "orders", "schema_": {"ddl": DDL}, "supported-formats": [form]}
    return decode_plan(Stream.model_validate(stream), base_dir=Path(), spark=spark)


def main(count: int) -> None:
    spark = local_session("tidemark-bench-decode", master="local[2]")
    plan, of_lines = plan_of(spark, "JSON"), plan_of(spark, "CSV")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good = make_records(spark, count, folder)
        mixed = make_records(spark, count, folder, bad_every=1000)
        lines = make_records(spark, count, folder, made=LINE)
        ways: dict[str, Callable[[], DataFrame]] = {
            "plain from_json": lambda: plain(good),
            "strict": lambda: strict(good, plan),
            "strict, 0.1 % bad": lambda: strict(mixed, plan),
            "strict, CSV": lambda: strict(lines, of_lines),
        }
        taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(ROUNDS + 1):
            for way, make in ways.items():
                taken[way].append(taken_by(make, folder))
    report(count, {way: found[1:] for way, found in taken.items()})
    spark.stop()


def report(count: int, taken: dict[str, list[tuple[float, float]]]) -> None:
    columns = ("way", "seconds", "records/s", "time over plain", "CPU s a million", "CPU over plain")
    table = Table(*columns, title=f"{count:,} records, medians of {ROUNDS} rounds in turn")
    middle = {
        way: [statistics.median(each) for each in zip(*found, strict=True)] for way, found in taken.items()
    }
    base, base_cpu = next(iter(middle.values()))
    for way, (wall, cpu) in middle.items():
        table.add_row(
            way,
            f"{wall:.2f}",
            f"{count / wall:,.0f}",
            f"{wall / base:.2f} ×",
            f"{cpu / count * 1e6:.1f}",
            f"{cpu / base_cpu:.2f} ×",
        )
    Console().print(table)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
