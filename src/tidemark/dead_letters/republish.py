"""Republishes dead letters to their source topic, for records that other consumers of the topic need too."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidemark.config.settings import Settings
from tidemark.contract import records
from tidemark.contract.dead_letters import (
    DEAD_LETTER_ID,
    REPLAY_COUNT,
    REPLAY_PREFIX,
    REPLAYED_FROM,
    DeadLetterStatus,
)
from tidemark.dead_letters.dlq_table.table import DeadLetterTable, event
from tidemark.dead_letters.headers import for_sink
from tidemark.dead_letters.replay import MOST_FAILURES
from tidemark.dead_letters.selection import PayloadEdit, Selection, edited
from tidemark.platform.kept_rows import kept
from tidemark.source.clients import spark_options
from tidemark.streams.target import Target
from tidemark.transform.content import headers_or_empty


def republish(
    spark: SparkSession,
    settings: Settings,
    target: Target,
    selection: Selection,
    *,
    edit: PayloadEdit | None = None,
    dry_run: bool = False,
    by: str = "tidemark",
    most: int = MOST_FAILURES,
) -> int:
    """Publish the chosen dead letters to the topic that they came from; returns how many.

    Every consumer group of the topic reads them again. A record gets new coordinates there; headers say which
    dead letter it is (`__dlq.replay.coordinates`) and how often it was published again (one counter,
    `__dlq.replay.count`). One that was published again `most` times is parked instead. At least once: killed
    between the publication and its status, a dead letter may be published twice.
    """
    table = DeadLetterTable(target.table)
    chosen = kept(selection.of(table.dead_letters(spark)).where(F.col(records.PAYLOAD).isNotNull()))
    ready = chosen.where(F.col("replay_count") < most)
    count = ready.count()
    if dry_run:
        return count
    fixed = edited(ready, edit)
    (
        fixed.select(
            F.lit(target.stream.kafka_topic).alias("topic"),
            F.col(records.KEY).alias("key"),
            F.col(records.PAYLOAD).alias("value"),
            _headers().alias("headers"),
        )
        .write.format("kafka")
        .options(**spark_options(settings.kafka))
        .option("includeHeaders", "true")
        .option("kafka.acks", "all")
        .save()
    )
    events = event(fixed, DeadLetterStatus.REPLAYED, by=by, note=F.lit("published again"))
    over = chosen.where(F.col("replay_count") >= most)
    note = F.lit(f"published again {most} times already")
    table.note(events.unionByName(event(over, DeadLetterStatus.PARKED, by=by, note=note)))
    return count


def _headers() -> Column:
    kept = F.filter(headers_or_empty(), lambda h: ~h["name"].startswith(REPLAY_PREFIX))
    count = (F.col("replay_count") + 1).cast("string")
    return for_sink(kept, {REPLAYED_FROM: F.col(DEAD_LETTER_ID), REPLAY_COUNT: count})
