"""`tidemark decode` on files of JSON, CSV and Avro: the stream's own code path, for people and programs."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.schema_registry import Registry, framed
from tests.transform.test_csv_avro import DDL, WRITER, avro, order

from tidemark.cli.app import main
from tidemark.cli.decode import _of_line

TOPICS: dict[str, Any] = {
    "people": {
        "supported-formats": ["JSON", "CSV"],
        "schema": {"ddl": "id INT NOT NULL, name STRING, at TIMESTAMP"},
    },
    "orders": {
        "supported-formats": ["AVRO"],
        "schema": {"ddl": DDL},
        "avro": {"framing": "confluent", "schema-files": {"7": "order.avsc"}},
    },
}


@pytest.fixture
def config(tmp_path: Path, spark: SparkSession) -> Path:
    (tmp_path / "order.avsc").write_text(json.dumps(WRITER))
    topics = {
        name: {"kafka-topic": name, "destination": {"bucket": "./lake", "path": name}, **body}
        for name, body in TOPICS.items()
    }
    kafka = {"bootstrap-servers": "127.0.0.1:9", "consumer": {"group-id": "g"}}
    (tmp_path / "tidemark.yml").write_text(json.dumps({"kafka": kafka, "connector": {"topics": topics}}))
    return tmp_path / "tidemark.yml"


def test_what_becomes_of_files_is_shown_for_every_format(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def decoded(stream: str, *files: Path) -> list[dict[str, Any]]:
        named = [str(file) for file in files]
        assert main(["decode", "--stream", stream, *named, "--config", str(config), "--json"]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return found

    dead_letter = {"stream_topic_id": "t", "stream_partition": 0, "stream_offset": 5}
    lines = [
        b'{"id": 1, "name": "\xc3\xa9", "at": "2024-07-01T12:00:00+02:00"}',
        b'{"id": "x"}',
        b'2,"a, b",',
        b"",
        *[
            json.dumps({**dead_letter, "value_b64": base64.b64encode(v).decode()}).encode()
            for v in (b'{"id":3}', b"{")
        ],
        json.dumps({**dead_letter, "value_b64": None}).encode(),
        json.dumps({**dead_letter, "value_b64": None, "payload_omitted": 2_000_000}).encode(),
    ]
    (tmp_path / "lines.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "whole.csv").write_bytes(b'4,"two\nlines",2024-07-01')
    found = decoded("people", tmp_path / "lines.jsonl", tmp_path / "whole.csv")
    assert [(f["payload"], f["route"], f["code"]) for f in found] == [
        ("lines.jsonl:1", "accepted", None),
        ("lines.jsonl:2", "rejected", "TYPE_MISMATCH"),
        ("lines.jsonl:3", "accepted", None),
        ("lines.jsonl:4", "rejected", "EMPTY_PAYLOAD"),
        ("lines.jsonl:5", "accepted", None),
        ("lines.jsonl:6", "rejected", "MALFORMED_JSON"),
        ("lines.jsonl:7", "skipped", None),
        ("lines.jsonl:8", "omitted", None),
        ("whole.csv", "accepted", None),
    ]
    rows = [(f["row"]["id"], f["row"]["name"], f["row"]["at"]) for f in found if f["row"]]
    assert rows == [
        (1, "\u00e9", "2024-07-01T10:00:00"),
        (2, "a, b", None),
        (3, None, None),
        (4, "two\nlines", "2024-07-01T00:00:00"),
    ]
    assert {f["row"]["source_topic"] for f in found if f["row"]} == {"people"}

    (tmp_path / "order.avro").write_bytes(b"\x00\x00\x00\x00\x07" + avro(WRITER, order()))
    (tmp_path / "other.avro").write_bytes(b"\x00\x00\x00\x00\x08" + avro(WRITER, order()))
    (tmp_path / "cut.avro").write_bytes(b"\x00\x00\x00\x00\x07" + avro(WRITER, order())[:-3])
    names = [tmp_path / f"{name}.avro" for name in ("order", "other", "cut")]
    good, unknown, cut = decoded("orders", *names)
    assert (unknown["code"], cut["code"]) == ("UNKNOWN_SCHEMA_ID", "MALFORMED_AVRO")
    shown = {name: good["row"][name] for name in ("id", "hash", "amount", "at", "day", "sizes")}
    assert shown == {
        "id": 7,
        "hash": base64.b64encode(b"\x01\x02").decode(),
        "amount": "12.34",
        "at": "2024-07-01T12:00:00",
        "day": "2024-07-01",
        "sizes": {"s": 1},
    }
    assert good["schema_id"] == 7


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"value_b64": "a"}, "value_b64: Value error, Invalid base64"),
        ({"value_b64": 5}, "value_b64: Value error, is not text in base64"),
        ({"value_b64": "", "stream_partition": "x"}, "stream_partition: Input should be a valid integer"),
        ({"value_b64": "", "stream_offset": -1}, "stream_offset: Input should be greater than or equal to 0"),
        (
            {"value_b64": "", "message_timestamp": "nonsense"},
            "message_timestamp: Value error, Invalid isoformat",
        ),
        (
            {"value_b64": "", "message_timestamp": 5},
            "message_timestamp: Value error, is not a time in ISO 8601",
        ),
        ({"value_b64": "", "stream_topic": 5}, "stream_topic: Input should be a valid string"),
        (
            {"value_b64": "", "message_headers": [{"name": "a"}]},
            "message_headers.0.value_b64: Field required",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else json.dumps(value)[:60],
)
def test_a_line_that_is_no_export_is_named_with_what_is_wrong_in_it(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: dict[str, Any], said: str
) -> None:
    (tmp_path / "lines.jsonl").write_text('{"id": 1}\n' + json.dumps(line) + "\n")
    arguments = ["decode", "--stream", "people", str(tmp_path / "lines.jsonl"), "--config", str(config)]
    assert main(arguments) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert "lines.jsonl, line 2: not an exported dead letter" in shown
    assert said in shown


def test_a_line_nested_beyond_all_bounds_is_a_payload(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.jsonl").write_bytes(b"[" * 200_000 + b"\n")
    assert main(["decode", "-s", "people", str(tmp_path / "lines.jsonl"), "-c", str(config), "--json"]) == 0
    assert [each["code"] for each in json.loads(capsys.readouterr().out)] == ["MALFORMED_JSON"]


def test_an_exported_line_keeps_its_key_its_headers_and_its_coordinates() -> None:
    exported = {
        "value_b64": "e30=",
        "key_b64": "aw==",
        "stream_offset": 7,
        "message_timestamp": "2026-03-29T01:30:00+00:00",
        "message_headers": [{"name": "h", "value_b64": None}],
    }
    assert _of_line(json.dumps(exported).encode(), "here") == {
        "message_payload": b"{}",
        "message_key": b"k",
        "stream_offset": 7,
        "message_timestamp": datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        "message_headers": [{"name": "h", "value": None}],
    }


def test_what_becomes_of_a_file_is_a_table_for_people(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.json").write_bytes(b'{"id": 1}')
    assert main(["decode", "--stream", "people", str(tmp_path / "one.json"), "--config", str(config)]) == 0
    assert "accepted" in capsys.readouterr().out
    assert main(["decode", "--stream", "people", str(tmp_path / "no.json"), "--config", str(config)]) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize("rules", [[], [{"name": "positive", "expr": "a > 0"}]], ids=["plain", "with Spark"])
def test_the_registry_is_asked_for_a_schema_that_is_in_no_file(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], rules: list[dict[str, str]]
) -> None:
    for name, payload in (("known", framed(2, b"\x04\x02x")), ("unknown", framed(9, b"\x02"))):
        (tmp_path / f"{name}.avro").write_bytes(payload)
    with Registry() as registry:
        stream = {
            "kafka-topic": "numbers",
            "supported-formats": ["AVRO"],
            "schema": {"ddl": "a INT, b STRING"},
            "avro": {"framing": "confluent", "registry": registry.url},
            "rules": rules,
            "destination": {"bucket": "./lake", "path": "numbers"},
        }
        kafka = {"bootstrap-servers": "127.0.0.1:9", "consumer": {"group-id": "g"}}
        config = tmp_path / "tidemark.yml"
        config.write_text(json.dumps({"kafka": kafka, "connector": {"topics": {"numbers": stream}}}))
        files = [str(tmp_path / f"{name}.avro") for name in ("known", "unknown")]
        assert main(["decode", "--stream", "numbers", *files, "--config", str(config), "--json"]) == 0
    known, unknown = json.loads(capsys.readouterr().out)
    assert (known["row"]["a"], known["row"]["b"]) == (2, "x")
    assert unknown["code"] == "UNKNOWN_SCHEMA_ID"
