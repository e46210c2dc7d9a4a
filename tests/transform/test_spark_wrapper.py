"""The decoder in Spark: once a record, under any time zone, in slices, and the same as without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.transform.samples import envelopes, outcomes, plan_of

from tidemark.contract import records
from tidemark.transform import transform

pytestmark = pytest.mark.usefixtures("as_shipped")

DDL = (
    "id INT NOT NULL, t TINYINT, d DECIMAL(10,2), x DOUBLE, f FLOAT, s STRING, b BINARY, o BOOLEAN, "
    "ts TIMESTAMP, nt TIMESTAMP_NTZ, dt DATE, m MAP<STRING, STRUCT<a: INT>>, l ARRAY<TIMESTAMP>"
)
GOOD = (
    b'{"id":1,"t":2,"d":"1.5","x":0.5,"f":0.1,"s":"\xc3\xa9","b":"YWI=","o":true,"ts":"2024-07-01T00:30:00+02:00",'
    b'"nt":"2024-07-01 00:30:00","dt":"2024-07-01","m":{"k":{"a":1}},"l":["2024-07-01T00:30:00Z",null]}'
)
PAYLOADS: list[bytes | None] = [GOOD, b'{"id":"x","t":300}', b"{", None, b"", b'{"id":2,"zz":1}', b'{"id":3}']


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_spark_gives_what_the_decoder_gives_whatever_the_session_s_zone(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    plan = plan_of(spark, tmp_path, DDL, unknown_fields="keep")
    alone = outcomes(spark, PAYLOADS, plan)
    instants = [F.unix_micros(f"{records.ROW}.ts"), F.col(f"{records.ROW}.l").cast("array<bigint>")]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        routed = transform(envelopes(spark, PAYLOADS), plan).orderBy(records.OFFSET)
        found, moments = routed.collect(), routed.select(*instants).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert [r.asDict(recursive=True) for r in found] == [r.asDict(recursive=True) for r in alone]
    assert moments[0][0] == 1_719_786_600_000_000
    assert moments[0][1] == [1_719_793_800, None]


def test_the_decoder_runs_once_a_record_when_its_result_is_asked_for_many_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = plan_of(spark, tmp_path, DDL)
    routed = transform(envelopes(spark, PAYLOADS), plan)
    asked = routed.where(F.col(records.ROUTE) == "accepted").where(f"{records.ROW}.id > 0").select("row.*")

    physical = asked._jdf.queryExecution().executedPlan().toString()

    assert physical.count("MapInArrow") == 1
    assert asked.count() == 3


def test_a_batch_is_decoded_in_slices_when_its_records_are_large(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(spark, tmp_path, "id INT, s STRING")
    payloads = [b'{"id":%d,"s":"%s"}' % (at, b"x" * 1_000_000) for at in range(30)]
    found = transform(envelopes(spark, payloads).coalesce(1), plan)

    kept = found.select(f"{records.ROW}.id", F.length(f"{records.ROW}.s").alias("size"), records.OFFSET)

    expected = spark.createDataFrame(
        [(at, 1_000_000, at) for at in range(30)], f"id INT, size INT, {records.OFFSET} BIGINT"
    )
    assert_df_equality(kept, expected, ignore_row_order=True, ignore_nullable=True)
