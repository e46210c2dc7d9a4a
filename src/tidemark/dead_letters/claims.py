"""A record of the DLQ topic claims to be the dead letter of a source record. Every writer of the topic can claim
anything, so the first claim stands, and a record that contradicts it is kept too.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_ID
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dead_letters.reading import dead_letters_of
from tidemark.platform.kept_rows import kept
from tidemark.sink.table_log import as_of_now

_DLQ = {records.PARTITION: "dlq_partition", records.OFFSET: "dlq_offset"}


def claimed(dlq_records: DataFrame, table: DeadLetterTable) -> DataFrame:
    """The dead letters of `dlq_records` in `DEAD_LETTER_DDL`, cached where possible.

    One that claims the coordinates of another dead letter with other bytes, in the table or before it in the
    batch, gets its own coordinates on the DLQ topic: neither replaces the other. A record that
    was published twice keeps its coordinates.
    """
    dead_letters = kept(dead_letters_of(dlq_records))
    contradicting = kept(_contradicting(dead_letters, table))
    if contradicting.isEmpty():
        return dead_letters
    places = contradicting.withColumnsRenamed({there: here for here, there in _DLQ.items()})
    apart = dead_letters_of(dlq_records.join(places, list(_DLQ), "left_semi"), believed=False)
    others = dead_letters.join(contradicting, list(_DLQ.values()), "left_anti")
    return kept(others.unionByName(apart))


def _contradicting(dead_letters: DataFrame, table: DeadLetterTable) -> DataFrame:
    """The DLQ coordinates of contradicting dead letters. One without its bytes contradicts nothing."""
    payload = F.col(records.PAYLOAD)
    span = dead_letters.agg(F.min(records.OFFSET).alias("low"), F.max(records.OFFSET).alias("high")).first()
    low, high = (span["low"], span["high"]) if span is not None else (None, None)
    there = (
        as_of_now(dead_letters.sparkSession, table.facts)
        .where(F.col(records.OFFSET).between(F.lit(low), F.lit(high)))
        .join(F.broadcast(dead_letters.select(DEAD_LETTER_ID).distinct()), DEAD_LETTER_ID, "left_semi")
        .select(DEAD_LETTER_ID, payload.alias("_held"), F.lit(True).alias("_there"))
    )
    order = Window.partitionBy(DEAD_LETTER_ID).orderBy("dlq_offset", "dlq_partition")
    joined = dead_letters.withColumn("_first", F.first(payload).over(order)).join(
        there, DEAD_LETTER_ID, "left"
    )
    standing = F.when(F.col("_there"), F.col("_held")).otherwise(F.col("_first"))
    return joined.where(F.col("payload_omitted").isNull() & ~payload.eqNullSafe(standing)).select(
        *_DLQ.values()
    )
