"""The rejected records that the pass over a batch carries along: their columns are built once for all batches."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.routes import Route
from tidemark.dead_letters.topic import DeadLetterTopic
from tidemark.ingest.batch import counts
from tidemark.ingest.batch.counts import batch_counts_of, observe
from tidemark.ingest.batch.new_offsets import IS_NEW

FAILURE = ("TYPE_MISMATCH", "decode", "TYPE_MISMATCH: field id", "JSON", [])


def batch_of(spark: SparkSession, *, good: int, bad: int, failure: tuple[Any, ...] = FAILURE) -> DataFrame:
    """A classified batch of one partition: `good` accepted records, then `bad` rejected ones."""
    rows = [
        ("t", "id", 0, at, None, "create_time", None, b"{}", [], failure if at >= good else None)
        for at in range(good + bad)
    ]
    rejected = F.col(records.FAILURE).isNotNull()
    return spark.createDataFrame(
        rows, f"{records.ENVELOPE_DDL}, {records.FAILURE} {records.FAILURE_DDL}"
    ).select(
        "*",
        F.when(rejected, Route.REJECTED.value).otherwise(Route.ACCEPTED.value).alias(records.ROUTE),
        F.lit(0).alias(records.UNKNOWN_FIELDS),
        F.lit(True).alias(IS_NEW),
    )


def test_a_later_batch_is_observed_by_the_columns_that_the_first_one_built(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for good, bad in ((2, 1), (3, 2)):
        observation = Observation()
        observe(batch_of(spark, good=good, bad=bad), observation, carried=7).count()
        found.append(batch_counts_of(observation))
        monkeypatch.setattr(counts.F, "count", _built_again)
    monkeypatch.undo()
    seen = [(c.read, c.new_accepted, c.rejected, len(c.dead_letters or ())) for c in found if c is not None]
    assert seen == [(3, 2, 1, 1), (5, 3, 2, 2)]


def test_a_dead_letter_topic_that_has_published_is_shipped_without_its_columns(spark: SparkSession) -> None:
    topic = DeadLetterTopic("t-dlq", 1, "s", TableRef(path="/t"), "g", 1_000_000, {})
    rejected = batch_of(spark, good=0, bad=2)
    first, second = topic.records(rejected).collect(), topic.records(rejected).collect()
    assert first == second
    shipped = pickle.loads(pickle.dumps(topic))
    assert shipped == topic
    assert shipped.records(rejected).collect() == first


def test_a_reason_that_is_longer_than_the_bound_is_not_carried_by_the_driver(spark: SparkSession) -> None:
    """20 faults of a record of 4 KB take more than the record: enough of them ended the driver's JVM."""
    long = ("TYPE_MISMATCH", "decode", "x" * counts.LARGEST_CARRIED_BYTES, "JSON", [])
    observation = Observation()
    observe(batch_of(spark, good=0, bad=2, failure=long), observation, carried=7).count()
    found = batch_counts_of(observation)
    assert found is not None
    assert (found.rejected, found.dead_letters) == (2, None)
    assert [row[records.FAILURE] for row in observation.get["letters"]] == [None, None]


def _built_again(*_: Any) -> Any:
    raise AssertionError("a column was built a second time")
