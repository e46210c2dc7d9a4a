"""CSV by RFC 4180, Avro to its last byte, and which of them a payload is."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from tests.transform.samples import code, decoded, envelopes, outcomes, plain, plan_of, write_schema

from tidemark.contract.errors import ConfigError
from tidemark.transform import transform
from tidemark.transform.schema_avsc import UnusableSchema

ABC = "id INT, name STRING, qty INT"


def lines(
    spark: SparkSession, folder: Path, texts: list[str | bytes], ddl: str = ABC, **csv: Any
) -> list[Any]:
    """Per CSV payload the row's values, or the code."""
    plan = plan_of(spark, folder, ddl, supported_formats=["CSV"], csv=csv)
    payloads = [t.encode() if isinstance(t, str) else t for t in texts]
    found = outcomes(spark, list(payloads), plan)
    return [code(r) or list((decoded(r, plan) or {}).values()) for r in found]


@pytest.mark.guarantee("case: decode-03", "case: decode-10")
def test_quoting_is_rfc_4180_when_a_line_is_read(spark: SparkSession, tmp_path: Path) -> None:
    bad = "MALFORMED_CSV"
    expected: dict[str | bytes, Any] = {
        '1,"say ""hi""",3': [1, 'say "hi"', 3],
        '1,"a,b\nc\r\nd",3': [1, "a,b\nc\r\nd", 3],
        '1,"",3': [1, "", 3],
        "1,,3": [1, None, 3],
        '1,"""",3': [1, '"', 3],
        '"1","x","3"': [1, "x", 3],
        "1, x ,3": [1, " x ", 3],
        "1,a\\,3": [1, "a\\", 3],
        '1,"a\\",3': [1, "a\\", 3],
        "1,x,3\r\n": [1, "x", 3],
        "1,x,3\n": [1, "x", 3],
        ",,": [None, None, None],
        "#1,x,3": "TYPE_MISMATCH",
        "1,#x,3": [1, "#x", 3],
        "1,'x,3": [1, "'x", 3],
        b"\xef\xbb\xbf1,x,3": [1, "x", 3],
        "1,é😀,3": [1, "é😀", 3],
        '1,a"b,3': bad,
        '1,"a"b,3': bad,
        '1, "a",3': bad,
        '1,"a" ,3': bad,
        '1,"a,3': bad,
        '1,"a"",3': bad,
        '1,a""b,3': bad,
        "1,x,3\n2,y,4": bad,
        "1,x,3\n\n": bad,
        "1,x\r,3": bad,
        "1,x": "COLUMN_COUNT",
        "1,x,3,": "COLUMN_COUNT",
        "1": "COLUMN_COUNT",
        '"1,x,3"': "COLUMN_COUNT",
        "1,x,3;4": "TYPE_MISMATCH",
        b"1,\xe9,3": "INVALID_UTF8",
        b"1,\xed\xa0\xbd,3": "INVALID_UTF8",
        "": "EMPTY_PAYLOAD",
        " \n": "EMPTY_PAYLOAD",
        "\r\n": "EMPTY_PAYLOAD",
    }
    assert lines(spark, tmp_path, list(expected)) == list(expected.values())


@pytest.mark.guarantee("case: decode-09")
def test_columns_are_counted_when_a_query_selects_one_of_them(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(spark, tmp_path, ABC, supported_formats=["CSV"])
    classified = transform(envelopes(spark, [b"1,x,3", b"1,x,3,more", b"1,x"]), plan)
    codes = spark.createDataFrame([(None,), ("COLUMN_COUNT",), ("COLUMN_COUNT",)], "code STRING")
    assert_df_equality(classified.select("failure.code"), codes, ignore_row_order=True, ignore_nullable=True)
    first = plan.fields[0].column
    read = classified.where("row IS NOT NULL").select(f"row.{first}")
    assert_df_equality(read, spark.createDataFrame([(1,)], f"{first} INT"), ignore_nullable=True)


@pytest.mark.parametrize("mark", [";", "|", "\t", "^", "]", "\\", ".", "-", " ", "~", "§"])
def test_any_character_may_delimit_when_it_is_declared(
    spark: SparkSession, tmp_path: Path, mark: str
) -> None:
    texts: list[str | bytes] = [
        mark.join(["1", '"a' + mark + 'b"', "3"]),
        mark.join(["1", "x", "3"]),
        mark * 2,
        mark,
    ]
    expected = [[1, f"a{mark}b", 3], [1, "x", 3], [None] * 3, "COLUMN_COUNT"]
    assert lines(spark, tmp_path, texts, delimiter=mark) == expected


def test_the_dialect_counts_when_it_is_not_the_usual(spark: SparkSession, tmp_path: Path) -> None:
    assert lines(spark, tmp_path, ["id,name,qty\r\n1,x,3", "1,x,3"], header=True) == [
        [1, "x", 3],
        [1, "x", 3],
    ]
    found = lines(spark, tmp_path, ["1,NULL,3", '1,"NULL",3', "1,,3"], null_text="NULL")
    assert found == [[1, None, 3], [1, "NULL", 3], [1, "", 3]]
    found = lines(spark, tmp_path, [r'1,"a\"b\\",3', '1,"a""b",3'], escape="\\")
    assert found == [[1, 'a"b\\', 3], "MALFORMED_CSV"]
    assert lines(spark, tmp_path, ["1,'it''s',3"], quote="'") == [[1, "it's", 3]]


@pytest.mark.guarantee("case: number-01")
def test_text_is_typed_strictly_when_it_is_csv(spark: SparkSession, tmp_path: Path) -> None:
    def column(kind: str, texts: list[str]) -> list[Any]:
        found = lines(spark, tmp_path, [f'"{t}",x' for t in texts], f"v {kind}, z STRING")
        return [f if isinstance(f, str) else f[0] for f in found]

    m, r = "TYPE_MISMATCH", "NUMBER_OUT_OF_RANGE"
    assert column(
        "INT", ["1", "-1", "1.0", "1e2", "+1", "007", "1.5", " 1", "1 ", "", "1_0", "0x1", "1L", "١"]
    ) == [
        *(1, -1, 1, 100, 1, 7, m, m, m, m, m, m, m, m),
    ]
    assert column("INT", ["2147483648", "-2147483649"]) == [r, r]
    assert column("DOUBLE", ["1.5", "NaN", "Infinity", "inf", "1d", "1e999", "."]) == [1.5, m, m, m, m, r, m]
    assert column("DECIMAL(4,2)", ["1.5", "1.005", "100"]) == [
        "1.50",
        "DECIMAL_PRECISION",
        "DECIMAL_PRECISION",
    ]
    assert column("BOOLEAN", ["true", "FALSE", "1", "yes", "t"]) == [True, False, m, m, m]
    assert column("DATE", ["2024-07-01", "2024-7-1"])[1] == "TIMESTAMP_UNPARSABLE"


WRITER = {
    "type": "record",
    "name": "Order",
    "namespace": "a.b",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {"name": "last", "type": ["null", "Kind"], "default": None},
        {"name": "price", "type": "double"},
    ],
}
DDL = """id INT NOT NULL, note STRING, kind STRING, hash BINARY, amount DECIMAL(10,2), at TIMESTAMP, day DATE,
         tags ARRAY<STRING>, sizes MAP<STRING, INT>, last STRING, price DOUBLE"""


def avro(schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def order(**changes: Any) -> dict[str, Any]:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    good: dict[str, Any] = {
        "id": 7,
        "note": "hello",
        "kind": "B",
        "hash": b"\x01\x02",
        "amount": Decimal("12.34"),
        "at": datetime(2024, 7, 1, 12, tzinfo=UTC),
        "day": date(2024, 7, 1),
        "tags": ["x", "y"],
        "sizes": {"s": 1},
        "last": None,
        "price": 1.5,
    }
    return {**good, **changes}


def test_avro_lands_whole_or_not_at_all_when_bytes_are_cut_or_left_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_schema(tmp_path, "w.avsc", WRITER)
    plan = plan_of(spark, tmp_path, DDL, supported_formats=["AVRO"], avro={"writer-schema": "w.avsc"})
    good = avro(WRITER, order())
    cut = [good[:n] for n in range(1, len(good))]
    longer = [good + b"\x00", good + b"x" * 16, good + good, b"\x00" + good]
    found = outcomes(spark, [good, *cut, *longer], plan)
    row = decoded(found[0], plan)
    assert row is not None
    assert {k: row[k] for k in ("id", "note", "kind", "amount", "at", "tags", "sizes", "last", "price")} == {
        "id": 7,
        "note": "hello",
        "kind": "B",
        "amount": "12.34",
        "at": "2024-07-01T12:00:00Z",
        "tags": ["x", "y"],
        "sizes": {"s": 1},
        "last": None,
        "price": 1.5,
    }
    assert {code(r) for r in found[1:]} == {"MALFORMED_AVRO"}


@pytest.mark.guarantee("case: number-03")
def test_a_value_has_its_code_when_avro_holds_what_the_column_cannot(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_schema(tmp_path, "w.avsc", WRITER)
    plan = plan_of(spark, tmp_path, DDL, supported_formats=["AVRO"], avro={"writer-schema": "w.avsc"})
    payloads = [
        avro(WRITER, order(id=2**40)),
        avro(WRITER, order(price=float("nan"))),
        avro(WRITER, order(price=float("-inf"))),
        avro(WRITER, order(note=None, tags=[], sizes={})),
        avro(WRITER, order(note="hello")).replace(b"hello", b"h\xffllo"),
    ]
    found = outcomes(spark, list(payloads), plan)
    assert [code(r) for r in found] == [
        "NUMBER_OUT_OF_RANGE",
        "NUMBER_OUT_OF_RANGE",
        "NUMBER_OUT_OF_RANGE",
        None,
        "INVALID_UTF8",
    ]


def test_a_record_of_nulls_is_a_row_when_its_schema_allows_it(spark: SparkSession, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "N", "fields": [{"name": "a", "type": ["null", "int"]}]}
    write_schema(tmp_path, "n.avsc", schema)
    plan = plan_of(
        spark, tmp_path, "a INT, b STRING", supported_formats=["AVRO"], avro={"writer-schema": "n.avsc"}
    )
    found = outcomes(spark, [b"\x00", b"\x02\x06", b"\x04", b"\x02"], plan)
    assert [code(r) or decoded(r, plan) for r in found] == [
        {"a": None, "b": None},
        {"a": 3, "b": None},
        "MALFORMED_AVRO",
        "MALFORMED_AVRO",
    ]


def variable_length(number: int) -> bytes:
    """A long as Avro writes it."""
    rest, out = number << 1, b""
    while rest > 127:
        out, rest = out + bytes([rest & 127 | 128]), rest >> 7
    return out + bytes([rest])


@pytest.mark.parametrize("length", [10**6, 3 * 10**8, 2 * 10**9, 2**31 - 9, 2**40])
def test_a_record_cannot_take_the_memory_when_its_bytes_claim_a_great_length(
    spark: SparkSession, tmp_path: Path, length: int
) -> None:
    fields = [
        {"name": "s", "type": "string"},
        {"name": "l", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "int"}},
    ]
    write_schema(tmp_path, "w.avsc", {"type": "record", "name": "R", "fields": fields})
    ddl = "s STRING, l ARRAY<INT>, m MAP<STRING, INT>"
    plan = plan_of(spark, tmp_path, ddl, supported_formats=["AVRO"], avro={"writer-schema": "w.avsc"})
    claim, text = variable_length(length), b"\x02a"
    found = outcomes(
        spark, [claim + b"abc", text + claim + b"\x02", text + b"\x00" + claim + b"\x02a\x02"], plan
    )
    assert [code(r) for r in found] == ["MALFORMED_AVRO"] * 3


def test_a_recursive_schema_is_refused_when_the_plan_is_made(spark: SparkSession, tmp_path: Path) -> None:
    node = {"name": "next", "type": ["null", "Node"]}
    write_schema(tmp_path, "r.avsc", {"type": "record", "name": "Node", "fields": [node]})
    with pytest.raises(ConfigError, match="contains itself"):
        plan_of(spark, tmp_path, schema={"file": "r.avsc"}, supported_formats=["AVRO"])


def test_the_format_is_found_when_several_are_supported(spark: SparkSession, tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}],
    }
    write_schema(tmp_path, "w.avsc", schema)
    ddl = "id INT, name STRING"
    plan = plan_of(
        spark, tmp_path, ddl, supported_formats=["JSON", "CSV", "AVRO"], avro={"writer-schema": "w.avsc"}
    )
    payloads = [
        b'{"id":1,"name":"x"}',
        b'\xef\xbb\xbf \n{"id":1,"name":"x"}\n',
        b"1,x",
        b"\xef\xbb\xbf1,x\r\n",
        avro(schema, {"id": 1, "name": "x"}),
        b"[1]",
        b"1;x",
        b"  ",
        b"null",
    ]
    found = outcomes(spark, list(payloads), plan)
    row = {"id": 1, "name": "x"}
    assert [code(r) or decoded(r, plan) for r in found] == [
        *[row] * 5,
        "NOT_AN_OBJECT",
        "MALFORMED_AVRO",
        "EMPTY_PAYLOAD",
        "EMPTY_PAYLOAD",
    ]
    assert [r.failure.format for r in found[5:7]] == ["JSON", "AVRO"]
    text = plan_of(spark, tmp_path, ddl, supported_formats=["JSON", "CSV"], csv={"delimiter": ";"})
    found = outcomes(spark, [b"1;x", b"1,x", b'{"id":1', b"hello"], text)
    assert [code(r) or plain(decoded(r, text)) for r in found] == [
        row,
        "UNSUPPORTED_FORMAT",
        "MALFORMED_JSON",
        "UNSUPPORTED_FORMAT",
    ]


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_json_is_json_whatever_its_schema_id_is_when_several_formats_are_framed(
    spark: SparkSession, tmp_path: Path, count: int
) -> None:
    """A few payloads are decided one by one, more of them in columns: both take the same."""
    plan = plan_of(
        spark, tmp_path, "id INT", supported_formats=["JSON", "AVRO"], avro={"framing": "confluent"}
    )
    plan = plan.with_writers({2: UnusableSchema("id 2: a schema of type JSON")})
    payloads: list[bytes | None] = [b"\x00\x00\x00\x00\x02" + b'{"id":%d}' % n for n in range(count)]
    found = outcomes(spark, payloads, plan)
    assert [code(r) or decoded(r, plan) for r in found] == [{"id": n} for n in range(count)]


@pytest.mark.guarantee("case: decode-02", "case: decode-13")
def test_a_frame_comes_off_when_the_topic_is_framed(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(spark, tmp_path, "id INT", avro={"framing": "confluent"})
    frame = b"\x00\x00\x00\x00\x02"
    payloads = [
        frame + b'{"id":1}',
        frame,
        b'{"id":1}',
        b"\x00\x00",
        b"\x01\x00\x00\x00\x02{}",
        frame + b"null",
    ]
    found = outcomes(spark, list(payloads), plan)
    assert [code(r) for r in found] == [
        None,
        "EMPTY_PAYLOAD",
        "MALFORMED_JSON",
        "MALFORMED_JSON",
        "MALFORMED_JSON",
        "EMPTY_PAYLOAD",
    ]
    assert found[0].schema_id == 2
    assert bytes(found[0].message_payload) == payloads[0]
