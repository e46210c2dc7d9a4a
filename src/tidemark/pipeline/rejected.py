"""Rejected records to the DLQ topic: step 4 of the batch (DESIGN §2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.routes import Route
from tidemark.pipeline.census import Census
from tidemark.sink.dead_letter import REJECTED_COLUMNS, DeadLetterTopic

REJECTED_SCHEMA = f"{records.ENVELOPE_DDL}, {records.FAILURE} {records.FAILURE_DDL}"


def publish_rejected(routed: DataFrame, census: Census, letters: DeadLetterTopic) -> Mapping[str, int]:
    """Publish, and return how many there are per failure code when every one is acknowledged.

    Where the pass over the batch did not carry them all along, they are read a second time, and they alone.
    """
    if census.letters is not None:
        rows = [tuple(row[c] for c in REJECTED_COLUMNS) for row in census.letters]
        letters.publish(routed.sparkSession.createDataFrame(rows, REJECTED_SCHEMA))
        return Counter(row[records.FAILURE]["code"] for row in census.letters)
    is_rejected = (F.col(records.ROUTE) == Route.REJECTED.value) & F.col("novel")
    # Kept for the count: an observation does not answer on Spark's way of writing to Kafka.
    rejected = routed.where(is_rejected).select(*REJECTED_COLUMNS).localCheckpoint(eager=False)
    letters.publish(rejected)
    counted = rejected.groupBy(F.col(f"{records.FAILURE}.code").alias("code")).count().collect()
    return {row["code"]: row["count"] for row in counted}
