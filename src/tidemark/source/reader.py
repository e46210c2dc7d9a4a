"""Kafka records as DataFrames of `ENVELOPE_COLUMNS`: an endless stream, or one range of offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.kafka import KafkaSettings
from tidemark.config.stream import Processing
from tidemark.contract import records
from tidemark.contract.marks import Marks
from tidemark.platform.capabilities import setting
from tidemark.source.clients import spark_options
from tidemark.source.topics import Topic

EARLIEST = -2
_LOG_APPEND_TIME = 1
_FETCH_WAIT_MS = "10"
"""A task asks only for offsets that are there. But its client fetches ahead, and at the end of the topic the
broker holds that fetch, and behind it the task's next request, for so long: with Kafka's 500 ms each
partition of each batch at the end of a topic cost half a second."""


def read_stream(
    spark: SparkSession,
    kafka: KafkaSettings,
    topic: Topic,
    *,
    start: Marks,
    processing: Processing,
    bounded: bool,
) -> DataFrame:
    """The topic from `start` on, every partition named; one that `start` leaves out starts at earliest.

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


def most_tasks(spark: SparkSession, processing: Processing) -> int | None:
    """In how many tasks a batch is read and landed at most, several Kafka partitions to a task; None: in as
    many as it has partitions. As many as `spark.default.parallelism` says where nothing else is asked for.

    Each task generates the code of its own projections, and writes a file.
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
    # Spark's own failOnDataLoss=false would skip what retention took without a word.
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
    # By position; a lambda would keep the whole step from being compiled.
    headers = F.col("headers").cast(records.HEADERS_DDL)
    # A producer may leave the timestamp out; the client shows that as -1.
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
