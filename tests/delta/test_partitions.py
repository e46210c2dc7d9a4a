"""What a table can be partitioned by: any value comes back as it was, and no moments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract.errors import SchemaConflict
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind, OwnCommit
from tidemark.sink import table as tables
from tidemark.sink.append import append

COORDINATES = (
    "stream_topic_id STRING, stream_partition INT, stream_offset BIGINT, message_timestamp TIMESTAMP"
)
AWKWARD = [
    *(
        "a/b",
        "a=b",
        "a b",
        " a",
        "a ",
        "ü",
        "日本",
        "%2F",
        "a%",
        "a:b",
        "*",
        "?",
        "#",
        "a\\b",
        "a\nb",
        "a\tb",
    ),
    *(".", "..", "'", '"', "{x}", "null", "__HIVE_DEFAULT_PARTITION__", "2024-01-01", "01", "x" * 150),
    *(None, ""),
]


def test_every_text_comes_back_as_it_was_when_it_is_a_partition_value(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    table = TableRef(path=tmp("by_country"))
    rows = spark.createDataFrame(
        [(c, "topic", 0, n, None) for n, c in enumerate(AWKWARD)], f"country STRING, {COORDINATES}"
    )
    tables.create(spark, table, rows.schema, Destination(partition_columns=("country",)))
    own = OwnCommit(CommitKind.BATCH, "s", "topic", "run/1/1", seq=1, base=0, marks=Marks({0: len(AWKWARD)}))
    assert append(rows, table, own).rows == len(AWKWARD)
    landed = spark.table(table.sql).orderBy("stream_offset").select("country").collect()
    # Of these two Delta and Spark make NULL; whole, they are in the raw record.
    none = ("", "__HIVE_DEFAULT_PARTITION__")
    assert [r["country"] for r in landed] == [None if c in none else c for c in AWKWARD]


def test_a_table_is_not_created_when_it_would_be_partitioned_by_moments(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    schema = spark.createDataFrame([], f"at TIMESTAMP, local TIMESTAMP_NTZ, {COORDINATES}").schema
    moment = TableRef(path=tmp("by_moment"))
    with pytest.raises(SchemaConflict, match=r"partition column at .* is a TIMESTAMP") as refused:
        tables.create(spark, moment, schema, Destination(partition_columns=("at",)))
    assert "to_date" in str(refused.value.hint)
    assert tables.describe(spark, moment) is None
    tables.create(spark, TableRef(path=tmp("by_local")), schema, Destination(partition_columns=("local",)))
