"""Every sample of other_samples.jsonl: further payloads of each kind of fault, one Spark run a stream."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.transform.samples import code, decoded, outcomes, plan_of, write_schema

from tidemark.contract.errors import ConfigError
from tidemark.transform import DecodePlan

SAMPLES = Path(__file__).with_name("other_samples.jsonl")
EPOCHS = {"es": {"epoch": "s"}, "em": {"epoch": "ms"}, "eu": {"epoch": "us"}}
WIDE = """t TINYINT, h SMALLINT, i INT, b BIGINT, d DECIMAL(10,2), w DECIMAL(38,10), f FLOAT, x DOUBLE,
    s STRING, o BOOLEAN, y BINARY, ts TIMESTAMP, dt DATE, nt TIMESTAMP_NTZ, es TIMESTAMP, em TIMESTAMP,
    eu TIMESTAMP, m MAP<STRING, STRING>, mi MAP<STRING, INT>, l ARRAY<INT>, ls ARRAY<STRING>,
    st STRUCT<a: INT, b: STRING, n: INT NOT NULL>, `a.b` INT, `q"q` INT, `é` INT"""


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def logical(kind: str, logical_type: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


OPTIONAL_TEXT = ["null", "string"]
WRITERS: dict[str, Any] = {
    "any": record(field("id", "int"), field("name", OPTIONAL_TEXT)),
    "avro": record(
        field("a", "int"),
        field("b", OPTIONAL_TEXT),
        field("l", {"type": "array", "items": "int"}),
        field("m", {"type": "map", "values": "string"}),
        field("e", {"type": "enum", "name": "E", "symbols": ["X", "Y"]}),
        field("o", "boolean"),
    ),
    "avro-decimal": record(
        field("dec", logical("bytes", "decimal", precision=6, scale=2)),
        field("df", logical("fixed", "decimal", name="F", size=4, precision=8, scale=2)),
    ),
    "avro-times": record(
        field("tm", logical("long", "timestamp-millis")),
        field("tu", logical("long", "timestamp-micros")),
        field("lm", logical("long", "local-timestamp-millis")),
        field("d", logical("int", "date")),
        field("u", logical("string", "uuid")),
        field("du", logical("fixed", "duration", name="D", size=12)),
        field("t", logical("int", "time-millis")),
        field("tt", logical("long", "time-micros")),
        field("n", logical("long", "timestamp-nanos")),
    ),
    "avro-types": record(
        field("i", "long"),
        field("t", "int"),
        field("x", "double"),
        field("f", "double"),
        field("s", "long"),
        field("d", "int"),
        field("es", "long"),
    ),
    "avro-text": record(
        field("i", "string"),
        field("ts", "string"),
        field("y", "bytes"),
        field("st", record(field("a", "int"), name="In")),
        field("z", "string"),
    ),
    "avro-required": record(field("a", ["null", "int"]), field("b", OPTIONAL_TEXT)),
}
WRITERS["avro-keep"] = WRITERS["avro-text"]
REGISTERED = {
    1: record(field("a", "int")),
    2: record(
        field("a", "long"),
        field("b", "string", default="none"),
        field("n", ["null", "int"], default=None),
        field("l", {"type": "array", "items": "string"}, default=[]),
    ),
    3: record(field("b", "string"), field("a", "int"), field("gone", "double")),
    4: record(field("b", "string")),
    5: record(field("a", "string")),
}
CSV, AVRO = {"supported_formats": ["CSV"]}, {"supported_formats": ["AVRO"]}
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "json": (WIDE, {"fields": EPOCHS}),
    "json-keep": ("id INT, n STRING", {"unknown_fields": "keep"}),
    "json-lax": ("id INT, st STRUCT<a: INT>, m MAP<STRING, INT>", {"strict": False}),
    "json-defaults": (
        "id INT, n STRING, ts TIMESTAMP",
        {"fields": {"n": {"default": "none"}, "id": {"required": True}}},
    ),
    "json-framed": ("id INT", {"avro": {"framing": "confluent"}}),
    "csv": ("id INT, name STRING, qty INT", CSV),
    "csv-tab": ("id INT NOT NULL, a STRING, b STRING", {**CSV, "csv": {"delimiter": "\t"}}),
    "csv-semi": (
        "id INT, d DECIMAL(6,2), x DOUBLE, ts TIMESTAMP, dt DATE, o BOOLEAN, f FLOAT, b BIGINT, y BINARY",
        {**CSV, "csv": {"delimiter": ";"}},
    ),
    "csv-one": ("s STRING", CSV),
    "any": ("id INT, name STRING", {"supported_formats": ["JSON", "CSV", "AVRO"]}),
    "avro": ("a INT, b STRING, l ARRAY<INT>, m MAP<STRING, STRING>, e STRING, o BOOLEAN", AVRO),
    "avro-decimal": ("dec DECIMAL(6,2), df DECIMAL(8,2)", AVRO),
    "avro-times": (
        """tm TIMESTAMP, tu TIMESTAMP, lm TIMESTAMP_NTZ, d DATE, u STRING, du BINARY, t INT, tt BIGINT,
        n BIGINT""",
        AVRO,
    ),
    "avro-types": (
        "i INT, t TINYINT, x DOUBLE, f FLOAT, s STRING, d DECIMAL(6,2), es TIMESTAMP",
        {**AVRO, "fields": {"es": {"epoch": "s"}}},
    ),
    "avro-text": ("i STRING, ts TIMESTAMP, y BINARY, st STRUCT<a: INT>", AVRO),
    "avro-keep": ("i STRING", {**AVRO, "unknown_fields": "keep"}),
    "avro-required": ("a INT NOT NULL, b STRING NOT NULL, c INT", AVRO),
    "avro-framed": ("a BIGINT, b STRING, n INT, l ARRAY<STRING>", AVRO),
}
LONG: dict[str, list[tuple[bytes, str]]] = {
    "json": [
        (b'{"zz":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "MALFORMED_JSON"),
        (b'{"s":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "MALFORMED_JSON"),
        (b'{"m":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, "MALFORMED_JSON"),
        (b"{" * 10_000, "MALFORMED_JSON"),
        (b"[" * 10_000 + b"]" * 10_000, "MALFORMED_JSON"),
        (b'{"i":1' + b"0" * 990 + b"}", "NUMBER_OUT_OF_RANGE"),
        (b'{"i":1' + b"0" * 5000 + b"}", "MALFORMED_JSON"),
        (b" " * 10_000, "EMPTY_PAYLOAD"),
    ],
    "csv": [
        (b"," * 5000, "COLUMN_COUNT"),
        (b'"' + b"a" * 100_000, "MALFORMED_CSV"),
        (b'1,"' + b'""' * 50_000 + b'",many', "TYPE_MISMATCH"),
    ],
}


def bytes_of(sample: dict[str, Any]) -> bytes | None:
    if "b64" in sample:
        return base64.b64decode(sample["b64"])
    return None if sample["text"] is None else sample["text"].encode()


def read() -> dict[str, list[tuple[bytes | None, Any]]]:
    """Stream → payload and what is expected of it: a code, the columns that are not NULL, or None."""
    found: dict[str, list[tuple[bytes | None, Any]]] = defaultdict(list)
    for line in SAMPLES.read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        found[sample["stream"]].append((bytes_of(sample), sample.get("code", sample.get("row"))))
    for stream, samples in LONG.items():
        found[stream].extend(samples)
    return found


def the_plan(spark: SparkSession, folder: Path, stream: str) -> DecodePlan:
    ddl, options = STREAMS[stream]
    if stream in WRITERS:
        options = {**options, "avro": {"writer-schema": write_schema(folder, "w.avsc", WRITERS[stream])}}
    if stream == "avro-framed":
        files = {i: write_schema(folder, f"{i}.avsc", s) for i, s in REGISTERED.items()}
        options = {
            **options,
            "avro": {"framing": "confluent", "schema-files": files, "reader-schema": files[2]},
        }
    return plan_of(spark, folder, ddl, **options)


def shown(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"b64": base64.b64encode(value).decode()}
    return str(value) if type(value).__name__ == "date" else value


@pytest.mark.parametrize("stream", STREAMS)
def test_each_sample_has_its_code_or_its_row_when_it_is_decoded(
    spark: SparkSession, tmp_path: Path, stream: str
) -> None:
    samples, plan = read()[stream], the_plan(spark, tmp_path, stream)
    found = outcomes(spark, [payload for payload, _ in samples], plan)
    surprises = []
    for (payload, expected), row in zip(samples, found, strict=True):
        columns = decoded(row, plan)
        given = {k: shown(v) for k, v in columns.items() if v is not None} if columns is not None else None
        got = code(row) or given
        if got != expected:
            surprises.append((payload and payload[:90], expected, got))
    assert surprises == []
    assert len(samples) > 1


def test_every_sample_belongs_to_a_stream_of_the_test() -> None:
    found = read()
    assert set(found) == set(STREAMS)
    assert sum(map(len, found.values())) > 900


@pytest.mark.parametrize("name", ["_decoded", "_VIOLATIONS", "_check0"])
def test_a_field_is_refused_when_the_pipeline_uses_its_name(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigError, match="uses this name"):
        plan_of(spark, tmp_path, f"`{name}` INT")
