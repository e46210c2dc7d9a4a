"""Rules, the COB date, enrichment and unknown fields: what is reported, and what is refused at the start."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.transform.samples import code, outcomes, plan_of

from tidemark.contract import records
from tidemark.contract.errors import ConfigError
from tidemark.transform import explain

pytestmark = pytest.mark.usefixtures("as_shipped")

DDL = "user_id STRING NOT NULL, qty INT, cob STRING"


def rule(name: str, expr: str, message: str = "") -> dict[str, str]:
    return {"name": name, "expr": expr, "message": message}


def test_all_failing_rules_are_listed_when_a_record_breaks_several(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = [
        rule("positive", "qty > 0", "qty must be positive"),
        rule("known", "user_id like 'u%'"),
        rule("share", "100 / qty > 1"),
        rule("never-null", "qty is null or qty < 1000"),
    ]
    plan = plan_of(spark, tmp_path, DDL, rules=rules)
    payloads: list[bytes | None] = [
        b'{"user_id":"u1","qty":5}',
        b'{"user_id":"u1"}',
        b'{"user_id":"x","qty":-5}',
        b'{"user_id":"u1","qty":0}',
        b'{"qty":-5}',
        None,
    ]
    found = outcomes(spark, payloads, plan)
    assert [code(r) for r in found] == [
        None,
        None,
        "RULE_VIOLATED",
        "RULE_VIOLATED",
        "REQUIRED_FIELD",
        None,
    ]
    assert [f.rule for f in found[2].failure.faults] == ["positive", "known", "share"]
    assert found[2].failure.faults[0].message == "qty must be positive"
    assert found[2].failure.stage == "validate"
    assert [f.rule for f in found[3].failure.faults] == ["positive", "share"]
    assert "raised" in found[3].failure.faults[1].message


@pytest.mark.guarantee("case: schema-07")
def test_only_its_record_fails_when_an_expression_raises(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(
        spark,
        tmp_path,
        "s STRING, n INT",
        rules=[rule("cast", "cast(s as int) > 0"), rule("raise", "if(n = 3, raise_error('no'), true)")],
        enrich={"inverse": "1 / n", "big": "n * 2000000000"},
    )
    payloads: list[bytes | None] = [
        b'{"s":"1","n":1}',
        b'{"s":"x","n":1}',
        b'{"s":"1","n":3}',
        b'{"s":"1","n":0}',
        b'{"s":"1","n":2}',
        b'{"s":"1"}',
    ]
    found = outcomes(spark, payloads, plan)
    assert [code(r) for r in found] == [None, *["TRANSFORM_FAILED"] * 4, None]
    assert [f.rule for f in found[3].failure.faults] == ["enrich.inverse"]
    assert [f.rule for f in found[4].failure.faults] == ["enrich.big"]
    assert found[0].row.inverse == 1.0
    assert found[0].row.big == 2_000_000_000


def cob_codes(spark: SparkSession, folder: Path, cobs: list[str], **columns: Any) -> list[str | None]:
    options = columns.pop("cob", {})
    plan = plan_of(spark, folder, DDL, cob=options)
    payloads = [f'{{"user_id":"u","cob":{cob}}}'.encode() for cob in cobs]
    return [code(r) for r in outcomes(spark, list(payloads), plan, **columns)]


@pytest.mark.guarantee("case: time-04")
def test_a_cob_date_is_measured_against_the_records_own_time_when_it_has_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    cobs = [
        '"2024-07-01"',
        '"2024-07-02"',
        '"2024-07-03"',
        '"2024-7-1"',
        "null",
        '"20240701"',
        '"0000-01-01"',
    ]
    bad = ["TIMESTAMP_UNPARSABLE", None, "TIMESTAMP_UNPARSABLE", "TIMESTAMP_OUT_OF_RANGE"]
    late = datetime(2024, 7, 1, 23, 30, tzinfo=UTC)
    in_utc = cob_codes(spark, tmp_path, cobs, **{records.TIMESTAMP: late})
    assert in_utc == [None, "RULE_VIOLATED", "RULE_VIOLATED", *bad]
    ahead = cob_codes(spark, tmp_path, cobs, cob={"timezone": "Europe/London"}, **{records.TIMESTAMP: late})
    assert ahead == [None, None, "RULE_VIOLATED", *bad]
    none = cob_codes(spark, tmp_path, cobs, **{records.TIMESTAMP: None})
    appended = cob_codes(
        spark, tmp_path, cobs, **{records.TIMESTAMP: late, records.TIMESTAMP_TYPE: "log_append_time"}
    )
    assert none == appended == [None, None, None, *bad]


@pytest.mark.guarantee("case: time-06")
def test_the_row_has_every_added_column_when_a_record_is_accepted(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = plan_of(
        spark,
        tmp_path,
        DDL,
        cob={},
        unknown_fields="keep",
        processing_version="2.1",
        enrich={"double_qty": "qty * 2", "origin": "concat(stream_topic, ':', stream_partition)"},
    )
    (row,) = outcomes(spark, [b'{"user_id":"u","qty":4,"cob":"2024-07-01","z":1.50,"y":{"a":[1.0]}}'], plan)
    assert row.row.asDict() == {
        "user_id": "u",
        "qty": 4,
        "cob": "2024-07-01",
        "double_qty": 8,
        "origin": "orders:0",
        "cob_date": date(2024, 7, 1),
        "_extra": {"z": "1.50", "y": '{"a":[1.0]}'},
        "stream_topic_id": "topic-1",
        "stream_partition": 0,
        "stream_offset": 0,
        "message_timestamp": datetime(2024, 7, 1, 12),
        "source_topic": "orders",
        "processing_version": "2.1",
    }
    assert row.unknown_fields == 2
    assert list(row.row.asDict()) == plan.table_schema.names
    assert pickle.loads(pickle.dumps(plan)) == plan


@pytest.mark.guarantee("case: schema-06")
def test_unknown_fields_are_counted_or_rejected_when_they_come(spark: SparkSession, tmp_path: Path) -> None:
    payloads: list[bytes | None] = [
        b'{"id":1}',
        b'{"id":1,"a":1,"b":{"c":1}}',
        b'{"ID":1}',
        b'{"id":1.0,"a":1}',
    ]
    counted = outcomes(spark, payloads, plan_of(spark, tmp_path, "id INT"))
    assert [r.unknown_fields for r in counted] == [0, 2, 1, 1]
    assert [r.row.id for r in counted] == [1, 1, None, 1]
    refused = outcomes(spark, payloads, plan_of(spark, tmp_path, "id INT", unknown_fields="reject"))
    assert [code(r) for r in refused] == [None, *["UNKNOWN_FIELD"] * 3]
    assert [f.field for f in refused[1].failure.faults] == ["a", "b"]


def test_a_default_fills_in_when_the_field_is_absent_and_not_when_it_is_null(
    spark: SparkSession, tmp_path: Path
) -> None:
    fields = {"n": {"default": 7}, "s": {"default": "none", "required": True}}
    plan = plan_of(spark, tmp_path, "id INT, n INT, s STRING", fields=fields)
    found = outcomes(spark, [b'{"id":1}', b'{"id":1,"n":null,"s":"x"}', b'{"id":1,"s":null}'], plan)
    assert [code(r) for r in found] == [None, None, "REQUIRED_FIELD"]
    assert [(found[0].row.n, found[0].row.s), (found[1].row.n, found[1].row.s)] == [(7, "none"), (None, "x")]


@pytest.mark.guarantee("case: time-06", "case: merge-03")
@pytest.mark.parametrize(
    "expr",
    [
        "rand()",
        "uuid()",
        "current_timestamp()",
        "current_timestamp",
        "now()",
        "current_date",
        "monotonically_increasing_id()",
        "input_file_name()",
        "current_user()",
        "unix_timestamp()",
        "cast('now' as timestamp)",
        "date 'today'",
        "shuffle(array(1))",
        "spark_partition_id()",
        "(select 1)",
        "row_number() over (order by qty)",
        "sum(qty)",
        "explode(array(1))",
        "nowhere",
        "qty +",
        "reflect('a','b')",
        "randstr(3)",
        "to_date('tomorrow')",
        "'yesterday'::date",
    ],
)
def test_an_expression_is_refused_when_it_is_not_a_function_of_the_record(
    spark: SparkSession, tmp_path: Path, expr: str
) -> None:
    with pytest.raises(ConfigError, match=r"enrich\.made: "):
        plan_of(spark, tmp_path, DDL, enrich={"made": expr})


def test_every_fault_is_reported_at_once_when_a_stream_has_several(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_of(
            spark,
            tmp_path,
            "`a b` INT, a_b INT, `route` STRING, ts STRING",
            fields={"ts": {"epoch": "ms"}, "gone": {"secret": True}},
            rules=[rule("x", "now() > ts"), rule("y", "a_b + 1")],
            cob={"field": "cob"},
            supported_formats=["JSON", "AVRO"],
        )
    text = str(caught.value)
    for part in (
        "one column",
        "column route",
        "fields.ts.epoch",
        "fields.gone",
        "rules.x",
        "cob.field",
        "avro.writer-schema",
    ):
        assert part in text


def test_explain_says_what_becomes_of_a_payload_when_it_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(spark, tmp_path, "id INT, qty INT")
    good, bad, gone = explain(spark, ['{"id":1,"qty":2}', b'{"id":1,"qty":"many"}', None], plan)
    assert (good.route, good.row and good.row["qty"]) == ("accepted", 2)
    assert bad.message == 'TYPE_MISMATCH: field qty: expected INT, found "many"'
    assert gone.route == "skipped"
    (single,) = explain(spark, {records.PAYLOAD: b"{", records.OFFSET: 9}, plan)
    assert single.code == "MALFORMED_JSON"
