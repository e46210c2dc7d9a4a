"""Rejected records to the DLQ topic: step 4 of the batch."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

import structlog
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.correlation import correlation_id_of
from tidemark.contract.routes import Route
from tidemark.dead_letters.dlq_table.oversized import keep_oversized
from tidemark.dead_letters.topic import REJECTED_COLUMNS, DeadLetterTopic
from tidemark.ingest.batch.counts import LARGEST_CARRIED_BYTES, BatchCounts
from tidemark.ingest.batch.new_offsets import IS_NEW
from tidemark.platform.kept_rows import kept
from tidemark.platform.local_rows import rows_of

log = structlog.get_logger(__name__)

_SURELY_FITS = 8 * LARGEST_CARRIED_BYTES
"""A topic with this limit accepts every record that is carried along, in an envelope too."""
_ENVELOPE = records.ENVELOPE_DDL.replace(f"{records.TIMESTAMP} TIMESTAMP", f"{records.TIMESTAMP} BIGINT")
CARRIED_SCHEMA = f"{_ENVELOPE}, {records.FAILURE} {records.FAILURE_DDL}"
"""Rejected records in the driver, with timestamps in microseconds (`counts.BatchCounts`)."""


def publish_rejected(
    routed: DataFrame, batch_counts: BatchCounts, dead_letters: DeadLetterTopic
) -> Mapping[str, int]:
    """Publish the rejected records; returns how many there are by failure code once all are acknowledged.

    Where the pass over the batch did not carry all of them along, they are read again. The bytes of a record
    that is too large for the topic are in the DLQ table before its pointer is published.
    """
    if batch_counts.dead_letters is not None:
        rows = [tuple(row[c] for c in REJECTED_COLUMNS) for row in batch_counts.dead_letters]
        carried = rows_of(routed.sparkSession, rows, CARRIED_SCHEMA).withColumn(
            records.TIMESTAMP, F.timestamp_micros(records.TIMESTAMP)
        )
        if dead_letters.max_bytes < _SURELY_FITS:
            keep_oversized(carried, dead_letters)
        dead_letters.publish(carried)
        _log_each(batch_counts.dead_letters)
        return _logged(
            Counter(row[records.FAILURE]["code"] for row in batch_counts.dead_letters), dead_letters
        )
    is_rejected = (F.col(records.ROUTE) == Route.REJECTED.value) & F.col(IS_NEW)
    # Kept for the count: Spark's writer to Kafka does not complete an observation.
    rejected = kept(routed.where(is_rejected).select(*REJECTED_COLUMNS), eager=False)
    counted = (
        rejected.groupBy(F.col(f"{records.FAILURE}.code").alias("code"))
        .agg(F.count(F.lit(1)).alias("number"), F.max(dead_letters.too_large()).alias("oversized"))
        .collect()
    )
    if any(row["oversized"] for row in counted):
        keep_oversized(rejected, dead_letters)
    dead_letters.publish(rejected)
    return _logged({row["code"]: row["number"] for row in counted}, dead_letters)


def _logged(codes: Mapping[str, int], dead_letters: DeadLetterTopic) -> Mapping[str, int]:
    """Logs one line for each batch, at INFO, and returns `codes`."""
    log.info(
        "dead letters published",
        stream=dead_letters.stream,
        topic=dead_letters.name,
        dead_letters=sum(codes.values()),
        codes=dict(codes),
    )
    return codes


def _log_each(dead_letters: Sequence[Row]) -> None:
    """Logs one line for each record, at DEBUG."""
    if not logging.getLogger(__name__).isEnabledFor(logging.DEBUG):
        return
    for row in dead_letters:
        where = f"{row[records.TOPIC]}-{row[records.PARTITION]}-{row[records.OFFSET]}"
        headers = [(h["name"], h["value"]) for h in row[records.HEADERS] or ()]
        log.debug(
            "record rejected",
            correlation_id=correlation_id_of(headers, where),
            record=where,
            code=row[records.FAILURE]["code"],
            stage=row[records.FAILURE]["stage"],
        )
