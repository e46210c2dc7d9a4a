"""`tidemark decode` on files of JSON, CSV and Avro: the stream's own code path, for people and programs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.schema_registry import Registry, framed
from tests.transform.test_csv_avro import DDL, WRITER, avro, order

from tidemark.cli.app import main

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
