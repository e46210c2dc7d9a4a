"""Rows of the driver as a DataFrame: the same values, and no Python where tasks run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.contract import records
from tidemark.ingest.batch import rejected
from tidemark.ingest.monitoring import metrics_table
from tidemark.platform.local_rows import no_rows, rows_of

LETTER = (
    *("orders", "topic-id", 3, 7, 1_720_000_000_123_456, "create_time", b"\x00k", b"\xff"),
    [("h", b"1"), ("h", None), ("", b"")],
    ("MALFORMED_JSON", "decode", "what is wrong", "JSON"),
)


def test_rejected_records_are_as_they_were_when_they_go_back_to_spark(spark: SparkSession) -> None:
    schema = T.StructType.fromDDL(rejected.CARRIED_SCHEMA)
    failure = schema[records.FAILURE].dataType
    assert isinstance(failure, T.StructType)
    bare = (*LETTER[:4], None, None, None, None, None, None)
    full = (*LETTER[:-1], tuple(LETTER[-1][: len(failure)]) + (None,) * (len(failure) - 4))
    found = rows_of(spark, [full, bare], rejected.CARRIED_SCHEMA)
    assert found.schema.simpleString() == schema.simpleString()
    expected = spark.createDataFrame([full, bare], schema)
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def test_moments_and_maps_are_as_they_were_when_metrics_go_to_their_table(spark: SparkSession) -> None:
    schema = T.StructType.fromDDL(metrics_table.SCHEMA)
    moment = datetime(2024, 7, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    given = {"at": moment, "stream": "s", "read": 5, "failures": {"X": 2}, "marks": {0: 9}, "seconds": 0.5}
    row = tuple(given.get(n) for n in schema.names)
    found = rows_of(spark, [row], metrics_table.SCHEMA)
    assert_df_equality(found, spark.createDataFrame([row], schema), ignore_nullable=True)


@pytest.mark.parametrize("asked", ["rows", "none"])
def test_no_python_starts_in_a_task(spark: SparkSession, asked: str) -> None:
    """Rows of a list would come out of a scan of an RDD that Python made."""
    ddl = "a INT, b ARRAY<STRING>, c BINARY"
    schema = T.StructType.fromDDL(ddl)
    assert isinstance(schema, T.StructType)
    found = rows_of(spark, [(1, ["x"], b"y")], ddl) if asked == "rows" else no_rows(spark, schema)
    assert found.schema.simpleString() == schema.simpleString()
    assert found.count() == (1 if asked == "rows" else 0)
    assert "ExistingRDD" not in found._jdf.queryExecution().toString()  # type: ignore[operator]
