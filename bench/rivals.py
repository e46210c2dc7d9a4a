"""What Tidemark is measured against: the same topic into a table by other means."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog
from load import CHANGES, Batches, Load
from loop import delta_rs_loop
from loop_same_work import same_work_loop
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.streaming import DataStreamWriter
from registry import registry
from samples import AVRO, DDL, SCHEMAS

from tidemark.config.reading.load import parse_settings
from tidemark.config.settings import Settings
from tidemark.ingest.application import Ingest

# What a batch came to is measured here; a line for each is not to be.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def settings_of(
    load: Load,
    folder: Path,
    *,
    form: str = "JSON",
    landing: bool = False,
    registry_url: str | None = None,
    least: int = 1,
    statistics: list[str] | None = None,
) -> Settings:
    """The configuration of one stream with all guarantees. A batch waits for `least` records.

    `statistics`: columns besides the coordinates; by default all, as the others' tables have them.
    """
    table: dict[str, Any] = {"bucket": str(folder), "path": "table"}
    if statistics is not None:
        table["statistics"] = statistics
    if load.partitioned and not landing:
        table["partition-columns"] = ["cob"]
    stream: dict[str, Any] = {
        "kafka-topic": load.topic_of(form),
        "supported-formats": ["AVRO" if form == CHANGES else form],
        "processing": {"max-batch-size": load.batch, "batch-size": least},
    }
    if form == "AVRO":
        (folder / "event.avsc").write_text(json.dumps(AVRO))
        stream["avro"] = {"writer-schema": "event.avsc"}
    if form == CHANGES:
        stream["avro"] = {"framing": "confluent", "registry": registry_url}
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
    return parse_settings(json.dumps(document), root=folder)


def tidemark(spark: SparkSession, load: Load, folder: Path, **options: Any) -> Batches:
    """The whole job: marks, checks, dead letters, group offsets."""
    with registry(SCHEMAS) as url:
        return land(spark, settings_of(load, folder, registry_url=url, **options))


def land(spark: SparkSession, settings: Settings) -> Batches:
    """Run until all is read; raises what stopped it."""
    batches = Batches()
    outcomes = Ingest(spark, settings, available_now=True, observers=[batches]).run()
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return batches


def bare_rows(
    spark: SparkSession,
    load: Load,
    *,
    form: str = "JSON",
    raw: bool = False,
    least: int = 1,
    same_columns: bool = False,
) -> DataFrame:
    """Spark's own stream: `from_json`, `from_avro`, or the bytes as they are. Checks nothing.

    Rows have their partition and offset; with `same_columns` all that Tidemark adds to a row.
    """
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", load.bootstrap)
        .option("subscribe", load.topic_of(form))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", load.batch)
        .options(**({"minOffsetsPerTrigger": str(least)} if least > 1 else {}))
        .load()
    )
    if raw:
        return records
    if form == "AVRO":
        parsed = from_avro(F.col("value"), json.dumps(AVRO), {"mode": "PERMISSIVE"})
    else:
        parsed = F.from_json(F.col("value").cast("string"), DDL)
    added: list[Any] = ["partition", "offset"]
    if same_columns:
        constants = {
            "topic_id": "m2zXtVqYQ1KxUjvFv5oF3A",
            "source_topic": load.topic_of(form),
            "version": "1",
        }
        added += ["timestamp", *[F.lit(value).alias(name) for name, value in constants.items()]]
    rows = records.select(parsed.alias("row"), "partition", "offset", "timestamp")
    return rows.select("row.*", *added)


def bare_writer(
    spark: SparkSession, load: Load, folder: Path, *, raw: bool = False, **options: Any
) -> DataStreamWriter:
    """`bare_rows` into an append of Spark's own."""
    rows = bare_rows(spark, load, raw=raw, **options)
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.partitionBy("cob") if load.partitioned and not raw else writer


def bare(spark: SparkSession, load: Load, folder: Path, **options: Any) -> Batches:
    """Spark's own way, until all is read."""
    writer = bare_writer(spark, load, folder, **options)
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    query.awaitTermination()
    batches = Batches()
    batches.seconds = [p.durationMs["triggerExecution"] / 1e3 for p in query.recentProgress if p.numInputRows]
    return batches


def kafka2delta(spark: SparkSession, load: Load, folder: Path) -> Batches:
    """The package of that name: each batch is merged by key, changes of a row as Debezium sends them.

    It has no option for the size of a batch, so all that the topic has is one; and the first bad record stops
    it, so it is given none. Raises ImportError where it is not installed.
    """
    from kafka2delta.config import DeltaTableConfig
    from kafka2delta.stream import stream_to_delta

    topic = load.topic_of(CHANGES)
    table = DeltaTableConfig(
        schema="default",
        table_name=folder.name.replace("-", "_"),
        path=str(folder / "table"),
        partition_cols=["cob"] if load.partitioned else [],
    )
    with registry(SCHEMAS) as url:
        query = stream_to_delta(
            spark,
            folder.name,
            load.bootstrap,
            [topic],
            {topic: table},
            str(folder / "checkpoint"),
            url,
        )
        batches, read = Batches(), 0
        while read < load.records:
            if query.exception() is not None:
                raise RuntimeError(f"kafka2delta stopped: {query.exception()}")
            read = sum(p.numInputRows for p in query.recentProgress)
            time.sleep(0.05)
        query.stop()
    spark.sql(f"DROP TABLE default.{table.table_name}")
    batches.seconds = [p.durationMs["triggerExecution"] / 1e3 for p in query.recentProgress if p.numInputRows]
    return batches


Rival = Callable[[SparkSession, Load, Path], Batches]

RIVALS: dict[str, tuple[Rival, str]] = {
    "tidemark": (tidemark, "JSON"),
    "tidemark, statistics of the coordinates": (
        lambda spark, load, folder: tidemark(spark, load, folder, statistics=[]),
        "JSON",
    ),
    "bare from_json append": (bare, "JSON"),
    "bare from_json append, same columns": (
        lambda spark, load, folder: bare(spark, load, folder, same_columns=True),
        "JSON",
    ),
    "delta-rs loop": (lambda spark, load, folder: delta_rs_loop(load, folder), "JSON"),
    "delta-rs loop, same work": (lambda spark, load, folder: same_work_loop(load, folder), "JSON"),
    "tidemark, landing only": (
        lambda spark, load, folder: tidemark(spark, load, folder, landing=True),
        "JSON",
    ),
    "bare raw append": (lambda spark, load, folder: bare(spark, load, folder, raw=True), "JSON"),
    "tidemark, CSV": (lambda spark, load, folder: tidemark(spark, load, folder, form="CSV"), "CSV"),
    "tidemark, Avro": (lambda spark, load, folder: tidemark(spark, load, folder, form="AVRO"), "AVRO"),
    "bare from_avro append": (
        lambda spark, load, folder: bare(spark, load, folder, form="AVRO"),
        "AVRO",
    ),
    "tidemark, changes": (lambda spark, load, folder: tidemark(spark, load, folder, form=CHANGES), CHANGES),
    "kafka2delta": (kafka2delta, CHANGES),
}
"""Each way with the format of the records that it takes."""
