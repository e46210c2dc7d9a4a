"""Every record of fixtures/cases.jsonl through the real decode: the stated route, code and row."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.transform.samples import code, decoded, outcomes, plan_of, write_schema

CASES = Path(__file__).parents[2] / "fixtures" / "cases.jsonl"
FORMATS = ("json", "csv", "avro")


def read_groups() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Cases of one kind (decode, number, time, schema), each with the format to try it in."""
    groups: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for line in CASES.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        for format_ in FORMATS if case["format"] == "any" else (case["format"],):
            key = json.dumps([format_, case["schema"], case["config"]], sort_keys=True)
            groups[key].append((format_, case))
    return groups


def stream_options(format_: str, config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The cases' options in the shape of Tidemark's own configuration."""
    options: dict[str, Any] = {"supported_formats": [format_]}
    avro: dict[str, Any] = {}
    for key, value in config.items():
        if key in ("tombstones", "unknown-fields", "fields"):
            options[key] = value
        elif key == "delimiter":
            options["csv"] = {"delimiter": value}
        elif key == "framing":
            avro["framing"] = value
        elif key == "registry":
            avro["schema-files"] = {i: write_schema(folder, f"{i}.avsc", s) for i, s in value.items()}
        else:
            avro[key] = write_schema(folder, f"{key}.avsc", value)
    if format_ == "avro" and not avro:
        record = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
        avro["writer-schema"] = write_schema(folder, "row.avsc", record)
    return {**options, "avro": avro} if avro else options


GROUPS = read_groups()


def test_the_file_of_cases_is_whole_when_it_is_read() -> None:
    assert sum(len(cases) for cases in GROUPS.values()) == 139
    assert {case["case"].split("-")[0] for cases in GROUPS.values() for _, case in cases} == {
        "decode",
        "number",
        "time",
        "schema",
    }


@pytest.mark.guarantee(
    "case: decode-01",
    "case: decode-02",
    "case: decode-03",
    "case: decode-04",
    "case: decode-05",
    "case: decode-06",
    "case: decode-07",
    "case: decode-08",
    "case: decode-09",
    "case: decode-10",
    "case: decode-11",
    "case: decode-12",
    "case: decode-13",
    "case: decode-14",
    "case: number-01",
    "case: number-02",
    "case: number-03",
    "case: time-01",
    "case: time-02",
    "case: time-03",
    "case: schema-01",
    "case: schema-02",
    "case: schema-03",
    "case: schema-04",
    "case: schema-05",
    "case: schema-06",
    "case: schema-07",
)
@pytest.mark.parametrize("key", GROUPS, ids=lambda key: f"{json.loads(key)[0]} {json.loads(key)[1]}"[:60])
def test_each_record_has_its_route_code_and_row_when_decoded(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    format_, ddl, config = json.loads(key)
    cases = [case for _, case in GROUPS[key]]
    plan = plan_of(spark, tmp_path, ddl, **stream_options(format_, config, tmp_path))
    payloads = [None if c["value_b64"] is None else base64.b64decode(c["value_b64"]) for c in cases]

    found = outcomes(spark, payloads, plan)

    assert [{"route": r.route, "code": code(r), "row": decoded(r, plan)} for r in found] == [
        case["expect"] for case in cases
    ]
    assert [r.message_payload and bytes(r.message_payload) for r in found] == payloads
