"""The sample sets: page views, trades and sensor readings through the real decode, row by row."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from tests.transform.samples import code, decoded, envelopes

from tidemark.config.stream import Stream
from tidemark.contract import records
from tidemark.dev.sample_sets import IN_FIXTURES, SETS, as_line
from tidemark.transform import decode_plan, transform

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sets"


def as_json(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return row and {k: v.isoformat() if isinstance(v, date) else v for k, v in row.items()}


@pytest.mark.parametrize("name", SETS)
def test_the_fixture_is_what_the_generator_writes(name: str) -> None:
    lines = (FIXTURES / name / "records.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [as_line(expected) for expected in SETS[name](IN_FIXTURES)]


@pytest.mark.parametrize("name", SETS)
def test_each_record_of_a_sample_set_has_its_route_code_and_row(spark: SparkSession, name: str) -> None:
    folder = FIXTURES / name
    body: dict[str, Any] = yaml.safe_load((folder / "stream.yml").read_text(encoding="utf-8"))
    stream = Stream.model_validate(body)
    plan = decode_plan(stream, base_dir=folder, spark=spark)
    cases = [json.loads(line) for line in (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    sent_at = datetime.fromtimestamp(cases[-1]["timestamp_ms"] / 1000, UTC)

    payloads = [base64.b64decode(case["value_b64"]) for case in cases]
    routed = transform(envelopes(spark, payloads, **{records.TIMESTAMP: sent_at}), plan).collect()
    found = sorted(routed, key=lambda row: row[records.OFFSET])

    assert [{"route": r.route, "code": code(r), "row": as_json(decoded(r, plan))} for r in found] == [
        case["expect"] for case in cases
    ]
