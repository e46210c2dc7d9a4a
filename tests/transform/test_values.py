"""Numbers, dates and texts at their edges, in every type of column: exact, or told apart by code."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from tests.transform.samples import code, outcomes, plain, plan_of

INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
M, R, P, U, FAR = (
    "TYPE_MISMATCH",
    "NUMBER_OUT_OF_RANGE",
    "DECIMAL_PRECISION",
    "TIMESTAMP_UNPARSABLE",
    "TIMESTAMP_OUT_OF_RANGE",
)


def results(spark: SparkSession, folder: Path, ddl: str, values: list[str], **options: Any) -> list[Any]:
    """Of JSON values in field x: the value if accepted, else the code."""
    plan = plan_of(spark, folder, ddl, **options)
    found = outcomes(spark, [f'{{"x":{value}}}'.encode() for value in values], plan)
    return [code(r) or plain(r.row)["x"] for r in found]


@pytest.mark.guarantee("case: number-01", "case: number-02")
@pytest.mark.parametrize(("kind", "bits"), INTEGERS.items())
def test_an_integer_is_exact_or_out_of_range_when_it_is_at_the_edge(
    spark: SparkSession, tmp_path: Path, kind: str, bits: int
) -> None:
    top = 2**bits
    good = [0, 1, -1, top - 1, -top]
    far = [top, -top - 1, 2 * top - 1, 10**19, -(10**30)]
    shapes: dict[str, Any] = {
        "1.0": 1,
        "1e2": 100,
        "1.20e1": 12,
        "-0": 0,
        "-0.0": 0,
        "0e5": 0,
        "100e-2": 1,
        "1.5": M,
        "1e-1": M,
        "1e400": R,
        "1e-400": M,
        "1e99999999999": R,
        '"1"': M,
        '""': M,
        "true": M,
        "[1]": M,
        '{"a":1}': M,
        "null": None,
    }
    values = [str(v) for v in [*good, *far]] + [f"{v}.0" for v in good] + list(shapes)
    expected = [*good, *[R] * len(far), *good, *shapes.values()]
    assert results(spark, tmp_path, f"x {kind}", values) == expected


@pytest.mark.guarantee("case: number-02")
def test_a_decimal_is_never_rounded_when_it_has_more_digits(spark: SparkSession, tmp_path: Path) -> None:
    expected: dict[str, Any] = {
        "1.5": "1.50",
        "1.50000": "1.50",
        "1.005": P,
        "0.001": P,
        "1e2": "100.00",
        "1.2e-1": "0.12",
        "12e-3": P,
        "99999999.99": "99999999.99",
        "100000000": P,
        "-99999999.99": "-99999999.99",
        "1e8": P,
        "1e400": P,
        "1e-400": P,
        "0e-400": "0.00",
        "0.00000": "0.00",
        "-0": "0.00",
        '"1.5"': "1.50",
        '"+.5"': "0.50",
        '"5."': "5.00",
        '"1e2"': "100.00",
        '"007"': "7.00",
        '"1.005"': P,
        '"1e999999999"': P,
        '""': M,
        '" 1"': M,
        '"1,5"': M,
        '"."': M,
        '"1e"': M,
        '"NaN"': M,
        '"٣"': M,
        "true": M,
        "null": None,
        "1.00000000000000000000000000000000000000001": P,
        "1.1000000000000000000000000000000000000000": "1.10",
        "0.10": "0.10",
        "5": "5.00",
        "00.1": "MALFORMED_JSON",
        "12345678.999999999999999999999": P,
        "1.10000000000000000001e0": P,
    }
    assert results(spark, tmp_path, "x DECIMAL(10,2)", list(expected)) == list(expected.values())
    wide = {
        "12345678901234567890123456789012345678": "12345678901234567890123456789012345678",
        "1e38": P,
        "1e37": "1" + "0" * 37,
    }
    assert results(spark, tmp_path, "x DECIMAL(38,0)", list(wide)) == list(wide.values())
    small = {"0.12": "0.12", "1": P, "0.1": "0.10", "0.01": "0.01", "0": "0.00", "0.012": P}
    assert results(spark, tmp_path, "x DECIMAL(2,2)", list(small)) == list(small.values())


@pytest.mark.guarantee("case: number-03")
def test_no_infinity_is_stored_when_a_number_overflows(spark: SparkSession, tmp_path: Path) -> None:
    expected: dict[str, Any] = {
        "1e308": 1e308,
        "1e309": R,
        "-1e309": R,
        "1" + "0" * 400: R,
        "1e-999": 0.0,
        "5": 5.0,
        '"5"': M,
        '"NaN"': M,
        '"Infinity"': M,
        '"-INF"': M,
        '"+Infinity"': M,
        '"nan"': M,
        "NaN": "MALFORMED_JSON",
        "false": M,
        "[]": M,
    }
    assert results(spark, tmp_path, "x DOUBLE", list(expected)) == list(expected.values())
    single = {"1e38": pytest.approx(1e38), "1e39": R, "3.5e38": R, "1.5": 1.5, "1e309": R}
    assert results(spark, tmp_path, "x FLOAT", list(single)) == list(single.values())


TIMESTAMPS: dict[str, Any] = {
    "2024-07-01T00:30:00Z": "2024-07-01T00:30:00Z",
    "2024-07-01t00:30:00z": "2024-07-01T00:30:00Z",
    "2024-07-01T00:30Z": "2024-07-01T00:30:00Z",
    "2024-07-01T00:30": "2024-07-01T00:30:00Z",
    "2024-07-01": "2024-07-01T00:00:00Z",
    "2024-07-01 00:30:00.123": "2024-07-01T00:30:00Z",
    "2024-07-01T00:30:00.123456789Z": "2024-07-01T00:30:00Z",
    "2024-07-01T00:30:00.1234567891Z": U,
    "2024-07-01T00:30:00+02": "2024-06-30T22:30:00Z",
    "2024-07-01T00:30:00+0200": "2024-06-30T22:30:00Z",
    "2024-07-01T00:30:00-05:30": "2024-07-01T06:00:00Z",
    "2024-07-01T00:30:00+00:00": "2024-07-01T00:30:00Z",
    "2024-02-29T00:00:00Z": "2024-02-29T00:00:00Z",
    "2023-02-29T00:00:00Z": U,
    "2024-02-30T00:00:00Z": U,
    "2024-04-31": U,
    "2024-13-01T00:00:00Z": U,
    "2024-00-01T00:00:00Z": U,
    "2024-07-00T00:00:00Z": U,
    "2024-07-01T24:00:00Z": U,
    "2024-07-01T23:59:60Z": U,
    "2024-07-01T00:60:00Z": U,
    "2024-07-01T00:30:00+25:00": U,
    "2024-07-01T00:30:00 Z": U,
    "2024-07-01T00:30:00Europe/London": U,
    "2024-07-01T00:30:00 UTC": U,
    "2024-07-01T00:30:00UTC": U,
    "2024-07-01T00:30:00.Z": U,
    "2024-07-01T00:30:00,5Z": U,
    "2024-07-01T00Z": U,
    "2024-07-01T": U,
    "2024-7-1": U,
    "2024-7-1T00:00:00Z": U,
    " 2024-07-01": U,
    "2024-07-01 ": U,
    "2024-07-01T00:30:00Z\n": U,
    "2024-07": U,
    "2024": U,
    "23456": U,
    "1700000000": U,
    "1700000000000": U,
    "12:30:00": U,
    "T12:30:00Z": U,
    "20240701T003000Z": U,
    "2024-W27-1": U,
    "2024-183": U,
    "01/07/2024": U,
    "07-01-2024": U,
    "Mon Jul 1 2024": U,
    "now": U,
    "today": U,
    "epoch": U,
    "": U,
    "9999-12-31T23:59:59.999999Z": "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-01:00": FAR,
    "10000-01-01T00:00:00Z": FAR,
    "+10000-01-01T00:00:00Z": FAR,
    "0000-12-31T23:59:59Z": FAR,
    "0001-01-01T00:00:00+01:00": FAR,
    "-0001-01-01T00:00:00Z": FAR,
    "２０２４-07-01T00:00:00Z": U,
}


def test_a_timestamp_is_iso_8601_or_unparsable_when_it_is_text(spark: SparkSession, tmp_path: Path) -> None:
    values = [json.dumps(text, ensure_ascii=False) for text in TIMESTAMPS]
    found = results(spark, tmp_path, "x TIMESTAMP", values)
    assert dict(zip(TIMESTAMPS, found, strict=True)) == TIMESTAMPS
    others = {"true": M, "5": M, "1.5": M, "{}": M, "[]": M, "null": None}
    assert results(spark, tmp_path, "x TIMESTAMP", list(others)) == list(others.values())


def test_dates_and_local_timestamps_keep_their_own_rules_when_they_are_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    dates = {
        '"2024-07-01"': "2024-07-01",
        '"2024-02-29"': "2024-02-29",
        '"2023-02-29"': U,
        '"2024-07-01T00:00:00Z"': U,
        '"2024-7-1"': U,
        '"0000-01-01"': FAR,
        '"10000-01-01"': FAR,
        '"0001-01-01"': "0001-01-01",
        "20240701": M,
        '""': U,
        '"9999-12-31"': "9999-12-31",
        '"2024-07-01 "': U,
        '"+024-07-01"': U,
    }
    assert [str(v) for v in results(spark, tmp_path, "x DATE", list(dates))] == list(dates.values())
    local = {
        '"2024-07-01T00:30:00"': "2024-07-01T00:30:00Z",
        '"2024-07-01 00:30:00.5"': "2024-07-01T00:30:00Z",
        '"2024-07-01T00:30:00Z"': U,
        '"2024-07-01T00:30:00+01:00"': U,
        '"2024-07-01"': "2024-07-01T00:00:00Z",
        "1": M,
        '"2024-07-01T00:30+01"': U,
    }
    assert results(spark, tmp_path, "x TIMESTAMP_NTZ", list(local)) == list(local.values())


@pytest.mark.guarantee("case: time-03")
@pytest.mark.parametrize("zone", ["Europe/London", "America/Los_Angeles"])
def test_text_without_an_offset_is_utc_when_the_session_is_elsewhere(
    spark: SparkSession, tmp_path: Path, zone: str
) -> None:
    values = [
        '"2024-07-01 00:30:00"',
        '"2024-07-01T00:30:00"',
        '"2024-03-31 01:30:00"',
        '"2024-07-01T00:30:00Z"',
    ]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        plan = plan_of(spark, tmp_path, "x TIMESTAMP", enrich={"micros": "unix_micros(x)"})
        found = outcomes(spark, [f'{{"x":{v}}}'.encode() for v in values], plan)
        assert [r.row.micros // 10**6 for r in found] == [1719793800, 1719793800, 1711848600, 1719793800]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.guarantee("case: time-01")
def test_an_epoch_number_needs_its_unit_when_it_is_a_timestamp(spark: SparkSession, tmp_path: Path) -> None:
    seconds = {
        "1700000000": "2023-11-14T22:13:20Z",
        "1700000000.5": "2023-11-14T22:13:20Z",
        "1.7e9": "2023-11-14T22:13:20Z",
        "-1": "1969-12-31T23:59:59Z",
        "0": "1970-01-01T00:00:00Z",
        "1700000000000000": FAR,
        "253402300800": FAR,
        "-62135596801": FAR,
        "9223372036854775808": FAR,
        "1e400": FAR,
        '"1700000000"': U,
        '"2023-11-14T22:13:20Z"': "2023-11-14T22:13:20Z",
        "true": M,
        "null": None,
    }
    options = {"fields": {"x": {"epoch": "s"}}}
    assert results(spark, tmp_path, "x TIMESTAMP", list(seconds), **options) == list(seconds.values())
    found = results(
        spark, tmp_path, "x TIMESTAMP", ["1700000000000", "253402300800000"], fields={"x": {"epoch": "ms"}}
    )
    assert found == ["2023-11-14T22:13:20Z", FAR]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["TIMESTAMP", "DECIMAL(10,2)", "BIGINT", "DOUBLE", "STRING"])
def test_no_time_is_lost_when_an_exponent_is_enormous(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    values = [
        "1e-999999999",
        "-1e-2147483648",
        "0e-999999999",
        "1e999999999",
        "1e2147483647",
        "-1E+999999999999",
    ]
    fields = {"x": {"epoch": "s"}} if kind == "TIMESTAMP" else {}
    start = time.monotonic()
    found = results(spark, tmp_path, f"x {kind}", values, fields=fields)
    assert time.monotonic() - start < 30
    expected = {
        "TIMESTAMP": ["1970-01-01T00:00:00Z"] * 3 + [FAR] * 3,
        "DECIMAL(10,2)": [P, P, "0.00", P, P, P],
        "BIGINT": [M, M, 0, R, R, R],
        "DOUBLE": [0.0, 0.0, 0.0, R, R, R],
        "STRING": values,
    }
    assert found == expected[kind]


def test_base64_and_booleans_are_strict_when_they_are_json(spark: SparkSession, tmp_path: Path) -> None:
    binary = {
        '"aGk="': b"hi",
        '""': b"",
        '"aGk"': M,
        '"a Gk="': M,
        '"!!"': M,
        "1234": M,
        "null": None,
        '"aGk=\\n"': M,
    }
    found = results(spark, tmp_path, "x BINARY", list(binary))
    assert [bytes(v) if isinstance(v, bytearray) else v for v in found] == list(binary.values())
    booleans = {"true": True, "false": False, '"true"': M, "1": M, "0": M, "null": None}
    assert results(spark, tmp_path, "x BOOLEAN", list(booleans)) == list(booleans.values())


@pytest.mark.guarantee("case: decode-06")
def test_every_fault_is_named_with_its_path_when_it_lies_deep(spark: SparkSession, tmp_path: Path) -> None:
    ddl = """id INT NOT NULL, o STRUCT<a: INT NOT NULL, p: STRUCT<q: DECIMAL(4,2)>>, l ARRAY<STRUCT<n: INT>>,
             m MAP<STRING, BIGINT>, ts TIMESTAMP"""
    plan = plan_of(spark, tmp_path, ddl)
    payload = b'{"o":{"p":{"q":1.234}},"l":[{"n":1},{"n":"x"},null,5],"m":{"k":1.5,"j":2},"ts":"soon"}'
    (row,) = outcomes(spark, [payload], plan)
    assert {f.field: (f.expected, f.found) for f in row.failure.faults} == {
        "id": ("INT NOT NULL", None),
        "o.a": ("INT NOT NULL", None),
        "o.p.q": ("DECIMAL(4,2)", "1.234"),
        "l[1].n": ("INT", '"x"'),
        "l[3]": ("STRUCT", "5"),
        "m[k]": ("BIGINT", "1.5"),
        "ts": ("TIMESTAMP", '"soon"'),
    }
    assert row.failure.code == "TYPE_MISMATCH"
    assert row.failure.stage == "decode"
    good = b'{"id":1,"o":{"a":1,"p":{"q":1.20}},"l":[{"n":1},null],"m":{"k":2},"ts":"2024-01-01"}'
    (row,) = outcomes(spark, [good], plan)
    assert plain(row.row)["o"] == {"a": 1, "p": {"q": "1.20"}}


def test_a_secret_is_never_shown_when_its_field_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(
        spark,
        tmp_path,
        "pin INT, card STRUCT<number: INT, owner: STRING>, qty INT",
        fields={"pin": {"secret": True}, "card.number": {"secret": True}},
    )
    payloads: list[bytes | None] = [
        b'{"pin":"hunter2","qty":"many"}',
        b'{"card":{"number":"hunter2"}}',
        b'{"card":["hunter2"]}',
        b'{"pin":hunter2}',
        b'{"pin":"' + b"x" * 500 + b'","qty":"' + b"y" * 500 + b'"}',
    ]
    found = outcomes(spark, payloads, plan)
    assert all(r.route == "rejected" for r in found)
    assert "hunter2" not in str([r.failure for r in found])
    assert "xxx" not in str(found[4].failure)
    assert len(found[4].failure.faults[1].found) <= 122


@pytest.mark.parametrize("value", ["STRUCT<a: INT, m: MAP<STRING, INT>>", "ARRAY<INT>", "MAP<STRING, INT>"])
def test_nothing_of_a_container_is_shown_when_it_is_secret(
    spark: SparkSession, tmp_path: Path, value: str
) -> None:
    plan = plan_of(spark, tmp_path, f"pin {value}, qty INT", fields={"pin": {"secret": True}})
    inside = {
        "STRUCT": b'{"a":"hunter2","m":{"hunter2":"hunter2"}}',
        "ARRAY": b'[1,"hunter2"]',
        "MAP": b'{"hunter2":"hunter2"}',
    }
    (found,) = outcomes(spark, [b'{"pin":' + inside[value.partition("<")[0]] + b"}"], plan)
    assert code(found) == "TYPE_MISMATCH"
    assert "field pin" in found.failure.message
    assert "hunter2" not in str(found.failure)


@pytest.mark.parametrize("payload", [b"hunter2,1\n2,3", b"hunter2,1\nhunter2,2"])
def test_no_line_of_csv_is_shown_as_a_header_when_a_field_is_secret(
    spark: SparkSession, tmp_path: Path, payload: bytes
) -> None:
    how: dict[str, Any] = {"supported_formats": ["CSV"], "csv": {"header": True}}
    shown, hidden = (
        outcomes(spark, [payload], plan_of(spark, tmp_path, "pin STRING, qty INT", fields=fields, **how))[0]
        for fields in ({}, {"pin": {"secret": True}})
    )
    assert code(shown) == code(hidden) == "MALFORMED_CSV"
    assert "hunter2" in shown.failure.message
    assert "hunter2" not in str(hidden.failure)


@pytest.mark.guarantee("case: decode-07")
def test_a_fault_is_found_when_a_query_selects_only_other_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    from tests.transform.samples import envelopes

    from tidemark.transform import transform

    plan = plan_of(spark, tmp_path, "id INT, qty INT, s STRUCT<a: INT>")
    payloads = [b'{"id":1,"qty":"x"}', b'{"id":"x","qty":1}', b'{"id":1,"s":{"a":"x"}}', b'{"id":2,"qty":1}']
    classified = transform(envelopes(spark, payloads), plan)
    for column, ddl, values in (
        ("route", "route STRING", ["accepted", "rejected", "rejected", "rejected"]),
        ("row.id", "id INT", [2, None, None, None]),
        ("failure.code", "code STRING", [None, M, M, M]),
    ):
        expected = spark.createDataFrame([(v,) for v in values], ddl)
        assert_df_equality(classified.select(column), expected, ignore_row_order=True, ignore_nullable=True)
    assert classified.where("row IS NOT NULL").count() == 1
