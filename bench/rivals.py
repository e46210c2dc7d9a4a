"""What Tidemark is measured against: the same topic into a table by other means."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.config.load import parse_settings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.observer import SilentObserver
from tidemark.pipeline.ingest import Ingest

DDL = (
    "user_id STRING, event_type STRING, amount DECIMAL(10,2), quantity INT, occurred_at TIMESTAMP, cob DATE, "
    "price DOUBLE, active BOOLEAN, note STRING, session BIGINT"
)


@dataclass(frozen=True)
class Load:
    """One topic to be landed, and in batches of how many records."""

    bootstrap: str
    topic: str
    records: int
    batch: int


class Batches(SilentObserver):
    """Seconds from the end of each batch to the end of the next, and of every commit where they are told.

    The first batch has the start of its stream in it.
    """

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.commits: list[float] = []
        self._began = time.monotonic()

    def batch_ended(self) -> None:
        now = time.monotonic()
        self.seconds.append(now - self._began)
        self._began = now

    def batch_landed(self, report: BatchReport) -> None:
        if report.read:
            self.batch_ended()
            self.commits.append(report.commit_seconds)


def tidemark(spark: SparkSession, load: Load, folder: Path, *, landing: bool = False) -> Batches:
    """The whole job: marks, checks, dead letters, group offsets."""
    table = {"bucket": str(folder), "path": "table"}
    stream: dict[str, Any] = {
        "kafka-topic": load.topic,
        "supported-formats": ["JSON"],
        "processing": {"max-batch-size": load.batch, "batch-size": 1},
    }
    if landing:
        stream["landing"] = {"destination": table}
    else:
        required = DDL.replace("user_id STRING", "user_id STRING NOT NULL")
        stream |= {"schema": {"ddl": required}, "destination": table}
    document = {
        "kafka": {"bootstrap-servers": load.bootstrap, "consumer": {"group-id": folder.name}},
        "connector": {"topics": {"events": stream}},
        "checkpoint-root": str(folder / "checkpoints"),
        "state-dir": str(folder / "state"),
    }
    batches = Batches()
    settings = parse_settings(json.dumps(document), root=folder)
    (outcome,) = Ingest(spark, settings, available_now=True, observers=[batches]).run()
    if outcome.error is not None:
        raise outcome.error
    return batches


def bare(spark: SparkSession, load: Load, folder: Path, *, raw: bool = False) -> Batches:
    """Spark's own: `from_json`, or the bytes as they are, and an append. Checks nothing."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", load.bootstrap)
        .option("subscribe", load.topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", load.batch)
        .load()
    )
    parsed = F.from_json(F.col("value").cast("string"), DDL)
    rows = (
        records
        if raw
        else records.select(parsed.alias("row"), "partition", "offset").select("row.*", "partition", "offset")
    )
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    query.awaitTermination()
    batches = Batches()
    batches.seconds = [p.durationMs["triggerExecution"] / 1e3 for p in query.recentProgress if p.numInputRows]
    return batches


def delta_rs_loop(load: Load, folder: Path) -> Batches:
    """One process without Spark: a Kafka client, orjson, pyarrow and delta-rs. Not idempotent.

    Raises ImportError where delta-rs or orjson is not installed.
    """
    import orjson
    import pyarrow as pa
    from confluent_kafka import Consumer
    from deltalake import write_deltalake

    consumer = Consumer(
        {
            "bootstrap.servers": load.bootstrap,
            "group.id": folder.name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "queued.min.messages": 500_000,
            "log_level": 0,
        }
    )
    consumer.subscribe([load.topic])
    text = pa.string()
    schema = pa.schema(
        [
            *(("user_id", text), ("event_type", text), ("amount", pa.float64()), ("quantity", pa.int32())),
            *(("occurred_at", text), ("cob", text), ("price", pa.float64()), ("active", pa.bool_())),
            *(("note", text), ("session", pa.int64())),
        ]
    )
    left = load.records
    rows: list[Any] = []
    batches = Batches()
    while left:
        for message in consumer.consume(10_000, 10):
            left -= 1
            try:
                rows.append(orjson.loads(message.value()))
            except orjson.JSONDecodeError:
                continue
        if rows and (len(rows) >= load.batch or not left):
            kept = [row for row in rows if isinstance(row.get("quantity"), int | None)]
            write_deltalake(str(folder / "table"), pa.Table.from_pylist(kept, schema), mode="append")
            rows = []
            batches.batch_ended()
    consumer.close()
    return batches


Rival = Callable[[SparkSession, Load, Path], Batches]

RIVALS: dict[str, Rival] = {
    "tidemark": tidemark,
    "bare from_json append": lambda spark, load, folder: bare(spark, load, folder),
    "delta-rs loop": lambda spark, load, folder: delta_rs_loop(load, folder),
    "tidemark, landing only": lambda spark, load, folder: tidemark(spark, load, folder, landing=True),
    "bare raw append": lambda spark, load, folder: bare(spark, load, folder, raw=True),
}
