"""Kafka records as DataFrames of `ENVELOPE_COLUMNS`: an endless stream, or one range of offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemark.config.kafka import KafkaSettings
from tidemark.config.stream import Processing
from tidemark.contract import records
from tidemark.contract.marks import Marks
from tidemark.platform.capabilities import setting
from tidemark.source.clients import spark_options
from tidemark.source.topics import Topic

log = structlog.get_logger(__name__)

EARLIEST = -2
_LOG_APPEND_TIME = 1
_FETCH_WAIT_MS = "10"
"""A task asks only for existing offsets, but its client fetches ahead. At the end of the topic the broker delays
that fetch, and the task's next request behind it, by this time: with Kafka's 500 ms, half a second for each
partition of each batch at the end of a topic."""


def read_stream(
    spark: SparkSession,
    kafka: KafkaSettings,
    topic: Topic,
    *,
    start: Marks,
    processing: Processing,
    bounded: bool,
) -> DataFrame:
    """The topic from `start` on, with all its partitions; those without a start begin at the earliest offset.

    `bounded` (availableNow) sets no minimum, or the tail of the topic would stay unread.
    """
    options = {
        **_read_options(kafka),
        "subscribe": topic.name,
        "startingOffsets": _offsets_json(topic, start),
        "maxOffsetsPerTrigger": str(processing.max_batch_size),
    }
    if not bounded:
        options["minOffsetsPerTrigger"] = str(processing.batch_size)
        options["maxTriggerDelay"] = f"{max(1, round(processing.flush_interval * 1000))}ms"
    if processing.min_partitions is not None:
        options["minPartitions"] = str(processing.min_partitions)
    kafka_rows = spark.readStream.format("kafka").options(**options).load()
    most = most_tasks(spark, processing)
    return _envelopes(kafka_rows if most is None else kafka_rows.coalesce(most), topic)


def start_polling(writer: DataStreamWriter, *, name: str, every: float | None) -> StreamingQuery:
    """Start a query that polls each so many seconds; with None it reads what is there and ends."""
    if every is None:
        return writer.trigger(availableNow=True).start()
    log.info("query polls", query=name, every_s=every)
    return writer.trigger(processingTime=f"{round(every * 1000)} milliseconds").start()


def most_tasks(spark: SparkSession, processing: Processing) -> int | None:
    """The highest number of tasks that read and land a batch, each with several Kafka partitions; None for one
    task for each partition. By default `spark.default.parallelism`.

    Each task generates code for its projections, and writes a file.
    """
    if processing.max_partitions is not None or processing.min_partitions is not None:
        return processing.max_partitions
    slots = setting(spark, "spark.default.parallelism")
    return int(slots) if slots else None


def read_range(
    spark: SparkSession, kafka: KafkaSettings, topic: Topic, *, start: Marks, end: Marks
) -> DataFrame:
    """The records of [start, end) of each partition that `end` names."""
    options = {
        **_read_options(kafka),
        "assign": json.dumps({topic.name: list(end)}),
        "startingOffsets": _offsets_json(topic, start, partitions=end),
        "endingOffsets": _offsets_json(topic, end, partitions=end),
    }
    return _envelopes(spark.read.format("kafka").options(**options).load(), topic)


def _read_options(kafka: KafkaSettings) -> dict[str, str]:
    # failOnDataLoss=false would silently skip offsets that retention deleted.
    return {
        **spark_options(kafka),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafka.isolation.level": kafka.consumer.isolation_level,
        "kafka.fetch.max.wait.ms": _FETCH_WAIT_MS,
        "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
        "kafka.receive.buffer.bytes": str(1024 * 1024),
        "kafka.max.poll.records": "10000",
    }


def _offsets_json(topic: Topic, marks: Marks, partitions: Mapping[int, int] | None = None) -> str:
    named = partitions if partitions is not None else dict.fromkeys(topic.partitions)
    return json.dumps({topic.name: {str(p): marks.get(p, EARLIEST) for p in named}})


def _envelopes(kafka_rows: DataFrame, topic: Topic) -> DataFrame:
    # By position: a lambda would keep Spark from compiling the whole step.
    headers = F.col("headers").cast(records.HEADERS_DDL)
    # A producer may omit the timestamp; the client returns -1 then.
    has_timestamp = F.col("timestamp") >= F.timestamp_millis(F.lit(0))
    append_time = F.col("timestampType") == _LOG_APPEND_TIME
    return kafka_rows.select(
        F.col("topic").alias(records.TOPIC),
        F.lit(topic.id).alias(records.TOPIC_ID),
        F.col("partition").alias(records.PARTITION),
        F.col("offset").alias(records.OFFSET),
        F.when(has_timestamp, F.col("timestamp")).alias(records.TIMESTAMP),
        F.when(append_time, F.lit("log_append_time"))
        .otherwise(F.lit("create_time"))
        .alias(records.TIMESTAMP_TYPE),
        F.col("key").alias(records.KEY),
        F.col("value").alias(records.PAYLOAD),
        headers.alias(records.HEADERS),
    )
