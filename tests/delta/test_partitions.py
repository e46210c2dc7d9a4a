"""What a table can be partitioned by: a value comes back as it was, or its record is rejected; no moments."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract import records
from tidemark.contract.errors import SchemaConflict
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.contract.routes import Route
from tidemark.sink import table as tables
from tidemark.sink.append import append
from tidemark.transform.fitting import FORMAT, fitted
from tidemark.transform.limits import ESCAPED, TableLimits, room_at

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
    *(
        ".",
        "..",
        "a.",
        "'",
        '"',
        "{x}",
        "null",
        "2024-01-01",
        "01",
        "\x7f",
        "\ufeff",
        "\U0001f600",
        "a" * 247,
    ),
    *("é" * 123, "%" * 82, "日" * 82, "e\u0301", "\u2028", None),
]
REFUSED = {
    "": "the empty text",
    "__HIVE_DEFAULT_PARTITION__": "comes back as NULL",
    "a\x00": "a NUL character",
    "a" * 248: "a folder's name of 256 bytes",
    "é" * 124: "a folder's name of 256 bytes",
    "%" * 83: "a folder's name of 257 bytes",
    "日" * 83: "a folder's name of 257 bytes",
    "x" * 100_000: "a folder's name of 100008 bytes",
}


def fuzzed(count: int) -> list[str]:
    dice = random.Random(20)
    alphabet = [*ESCAPED, *"aZ09 ._-~$&+,;@<>|}`é日\u200b\U0001f600"]
    lengths = (1, 3, 30, 80, 84, 120, 124, 200, 246, 250)
    return ["".join(dice.choices(alphabet, k=dice.choice(lengths))) for _ in range(count)]


def rows_of(
    spark: SparkSession, values: Iterable[tuple[int, str | bytearray | None]], ddl: str = "STRING"
) -> DataFrame:
    return spark.createDataFrame(
        [(v, "topic", 0, n, None) for n, v in values], f"country {ddl}, {COORDINATES}"
    )


def classified(spark: SparkSession, values: list[str | bytearray | None], ddl: str = "STRING") -> DataFrame:
    """Accepted records of these values, as `transform` makes them."""
    rows = rows_of(spark, enumerate(values), ddl)
    return rows.select(
        F.lit(Route.ACCEPTED.value).alias(records.ROUTE),
        F.lit(None).cast(records.FAILURE_DDL).alias(records.FAILURE),
        F.struct(*rows.columns).alias(records.ROW),
        F.lit("JSON").alias(FORMAT),
        F.col("stream_offset").alias("n"),
    )


def land(table: TableRef, accepted: DataFrame, count: int) -> DataFrame:
    """The table's rows, once the accepted are in it."""
    tables.create(accepted.sparkSession, table, accepted.schema, Destination(partition_columns=("country",)))
    own = LedgerCommit(CommitKind.BATCH, "s", "topic", "run/1/1", seq=1, base=0, marks=Marks({0: count}))
    append(accepted.coalesce(1), table, own)
    return accepted.sparkSession.table(table.sql)


def test_a_value_comes_back_as_it_was_or_its_record_is_rejected(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    values = [*AWKWARD, *REFUSED, *fuzzed(400)]
    limits = TableLimits(("country",), room=room_at("file:/somewhere"))
    judged = fitted(classified(spark, values), limits).localCheckpoint()
    accepted = judged.where(F.col(records.ROUTE) == Route.ACCEPTED.value)
    kept = [(r["n"], values[r["n"]]) for r in accepted.orderBy("n").select("n").collect()]
    landed = land(TableRef(path=tmp("by_country")), accepted.select("row.*"), len(values))
    assert_df_equality(landed, rows_of(spark, kept), ignore_row_order=True, ignore_nullable=True)
    assert kept[: len(AWKWARD)] == list(enumerate(AWKWARD))
    rejected = judged.where(F.col(records.ROUTE) == Route.REJECTED.value).orderBy("n").collect()
    failures = {values[r["n"]]: r[records.FAILURE] for r in rejected}
    assert all(
        f"found {why}" in failures[v]["message"] or why in failures[v]["message"]
        for v, why in REFUSED.items()
    )
    assert {f["code"] for f in failures.values()} == {"PARTITION_VALUE"}
    assert (failures[""]["stage"], failures[""]["format"]) == ("validate", "JSON")
    assert failures[""]["faults"][0]["field"] == "country"
    assert all(r[records.ROW] is None for r in rejected)
    assert 50 < len(failures) < 350


@pytest.mark.parametrize("value", ["a\x00", "a" * 248, "%" * 83], ids=["nul", "long", "escaped"])
def test_what_is_rejected_would_fail_the_whole_batch(
    spark: SparkSession, tmp: Callable[[str], str], value: str
) -> None:
    rows = classified(spark, ["good", value]).select("row.*")
    with pytest.raises(Exception, match="TASK_WRITE_FAILED"):
        land(TableRef(path=tmp("t")), rows, 2)


def test_bytes_that_would_come_back_as_others_are_rejected(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    values: list[str | bytearray | None] = [bytearray(b"abc"), bytearray("ü".encode()), None]
    judged = fitted(
        classified(spark, [*values, bytearray(b"\xff\xfe"), bytearray(b"")], "BINARY"),
        TableLimits(("country",)),
    ).localCheckpoint()
    accepted = judged.where(F.col(records.ROUTE) == Route.ACCEPTED.value).select("row.*")
    landed = land(TableRef(path=tmp("by_bytes")), accepted, 5)
    expected = rows_of(spark, enumerate(values), "BINARY")
    assert_df_equality(landed, expected, ignore_row_order=True, ignore_nullable=True)
    rejected = judged.where(F.col(records.ROUTE) == Route.REJECTED.value).orderBy("n").collect()
    assert "no text in UTF-8" in rejected[0][records.FAILURE]["message"]
    assert "the empty text" in rejected[1][records.FAILURE]["message"]


def test_partition_folders_are_refused_when_the_store_cannot_hold_their_names(
    spark: SparkSession,
) -> None:
    rows = spark.createDataFrame([("a" * 200, "b" * 200), ("a", "b"), ("a", "b.")], "one STRING, two STRING")
    judged = rows.select(
        F.lit(Route.ACCEPTED.value).alias(records.ROUTE),
        F.lit(None).cast(records.FAILURE_DDL).alias(records.FAILURE),
        F.struct("one", "two").alias(records.ROW),
        F.lit("JSON").alias(FORMAT),
    )
    limits = TableLimits(("one", "two"), room=room_at(f"abfss://c@a/{'k' * 500}"), dotless=True)
    long, fine, dotted = fitted(judged, limits).collect()
    assert "folders' names of 410 bytes, and 396 are left" in long[records.FAILURE]["message"]
    assert fine[records.ROUTE] == Route.ACCEPTED.value
    assert "field two: " in dotted[records.FAILURE]["message"]
    assert "a dot at its end" in dotted[records.FAILURE]["message"]


def test_another_reader_sees_null_where_a_value_is_rejected_for_it(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    path = tmp("by_country")
    land(TableRef(path=path), classified(spark, ["", "__HIVE_DEFAULT_PARTITION__", "a b"]).select("row.*"), 3)
    # The log is what every reader goes by.
    log = (Path(path) / "_delta_log/00000000000000000001.json").read_text()
    assert set(re.findall('"partitionValues":{"country":([^}]*)}', log)) == {"null", '"a b"'}


@pytest.mark.guarantee("case: time-03")
def test_a_table_is_not_created_when_it_would_be_partitioned_by_moments(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    schema = spark.createDataFrame([], f"at TIMESTAMP, local TIMESTAMP_NTZ, {COORDINATES}").schema
    moment = TableRef(path=tmp("by_moment"))
    with pytest.raises(SchemaConflict, match=r"partition-columns: at is a TIMESTAMP") as refused:
        tables.create(spark, moment, schema, Destination(partition_columns=("at",)))
    assert "to_date" in str(refused.value.hint)
    assert tables.describe(spark, moment) is None
    # Whatever its letter case.
    made = tables.create(
        spark, TableRef(path=tmp("by_local")), schema, Destination(partition_columns=("LOCAL",))
    )
    assert made.partition_columns == ("local",)
