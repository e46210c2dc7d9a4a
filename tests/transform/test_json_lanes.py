"""The two lanes of JSON: what the fast one takes comes out as from the strict one; what a record costs."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.transform.samples import plan_of
from tests.transform.test_random_records import COLUMNS, EPOCHS, json_of

from tidemark.transform import explain
from tidemark.transform.decode.decoder import SLICE_BYTES, Decoder
from tidemark.transform.decode.json import fast as json_fast
from tidemark.transform.decode.json.fast import FastJson, Taken
from tidemark.transform.decode.json.strict import StrictJson
from tidemark.transform.schema import finish_fields
from tidemark.transform.schema_ddl import fields_from_ddl

NESTED = {
    "l": ("ARRAY<INT>", ("",), ["[]", "[1,2,null]"]),
    "lt": ("ARRAY<TIMESTAMP>", ("",), ["[]", '["2024-07-01T00:30:00Z",null]']),
    "st": ("STRUCT<a: INT NOT NULL, b: STRING>", ("",), ['{"a":1,"b":"x"}', '{"a":1}', "{}"]),
    "ls": (
        "ARRAY<STRUCT<q: DECIMAL(4,2), w: BINARY>>",
        ("",),
        ['[{"q":"1.5","w":"YWI="},null]', '[{"q":100}]'],
    ),
}
DDL = "id INT NOT NULL, d DECIMAL(10,2), x DOUBLE, s STRING, ts TIMESTAMP, dt DATE, e BIGINT, b BINARY"
GOOD = (
    '{"id":%d,"d":1.25,"x":0.5,"s":"a b","ts":"2024-07-01T00:30:00.123Z","dt":"2024-07-01","e":5,"b":"YWI="}'
)


def lanes(ddl: str, **options: Any) -> tuple[FastJson, StrictJson]:
    fields, faults = finish_fields(fields_from_ddl(ddl), {})
    assert not faults
    unknown = options.get("unknown_fields", "ignore")
    strict = StrictJson(fields, strict=options.get("strict", True), unknown_fields=unknown)
    return FastJson(fields, unknown_fields=unknown, unknown=strict.unknown), strict


def taken(ddl: str, payloads: list[bytes], **options: Any) -> Taken:
    found = lanes(ddl, **options)[0].read(pa.array(payloads, pa.binary()))
    assert found is not None
    return found


def good(count: int) -> list[bytes]:
    return [(GOOD % at).encode() for at in range(count)]


@pytest.mark.parametrize("unknown_fields", ["ignore", "keep"])
@pytest.mark.parametrize("columns", [COLUMNS, {k: COLUMNS[k] for k in ("i", "d", "s", "ts")} | NESTED])
def test_what_the_fast_lane_takes_comes_out_as_from_the_strict_one(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    columns: dict[str, Any],
    unknown_fields: str,
) -> None:
    """Read down to single records, so that each that can be taken is."""
    monkeypatch.setattr(json_fast, "_MOST_READS", 100_000)
    monkeypatch.setattr(json_fast, "_SMALLEST_PART", 1)
    chance = random.Random(7)
    payloads = [json_of(chance, columns) for _ in range(2000)]
    ddl = ", ".join(f"{name} {sql}" for name, (sql, _, _) in columns.items())
    epochs = {name: epoch for name, epoch in EPOCHS.items() if name in columns}
    plan = plan_of(spark, tmp_path, ddl, fields=epochs, unknown_fields=unknown_fields)
    both = Decoder(plan).decode(pa.array(payloads, pa.binary()))
    monkeypatch.setattr(json_fast, "FEW", len(payloads) + 1)
    strictly = Decoder(plan).decode(pa.array(payloads, pa.binary()))
    monkeypatch.setattr(json_fast, "FEW", 1)
    fast = FastJson(
        plan.fields,
        unknown_fields=unknown_fields,
        unknown=StrictJson(plan.fields, strict=True, unknown_fields=unknown_fields).unknown,
    )

    assert both.field("failure").equals(strictly.field("failure"))
    assert both.field("unknown").equals(strictly.field("unknown"))
    assert both.field("row").equals(strictly.field("row"))
    found = fast.read(pa.array(payloads, pa.binary()))
    assert found is not None
    assert found.taken.sum() > 100


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"x":NaN}',
        '{"id":1,"x":-Infinity}',
        '{"id":1,"zz":NaN}',
        '{"id":1}{"id":1}',
        '{"id":1,"zz":1,"zz":2}',
        '{"id":1,"zz":{"a":1,"a":2}}',
        '{"id":1,"s":"\\u0022","zz":5,"zz":5}',
        '{"id":1,"d":123456789}',
        '{"id":1,"d":" 5"}',
        '{"id":1,"ts":"0000-01-01T00:00:00Z"}',
        '{"id":1,"ts":"9999-12-31T23:59:59-01:00"}',
        '{"id":1,"ts":"2024-07-01T12Z"}',
        '{"id":1,"ts":"2024-07-01T12:00:00+18:01"}',
        '{"id":1,"dt":"2024-07-01T00:00"}',
        '{"id":1,"b":"YW"}',
        '{"id":null}',
        '{"x":1}',
        '{"id":1,"x":1' + "0" * 400 + "}",
        '{"id":1,"x":0.' + "1" * 1001 + "}",
        '{"id":1,"zz":' + "1" * 1001 + "}",
        '{"id":1,"zz":' + "[" * 1001 + "]" * 1001 + "}",
        '{"id":1,"s":"\\ud83d"}',
        '{"id":1,"s":"a\nb"}',
        '"{}"',
    ],
)
def test_what_arrow_lets_pass_is_not_taken(text: str) -> None:
    found = taken(DDL, [*good(60), text.encode()])
    assert found.taken.tolist() == [*[True] * 60, False]


def test_bytes_that_are_no_text_are_not_taken() -> None:
    found = taken(DDL, [*good(20), b'{"id":1,"s":"\xff"}', b'{"id":1,"zz":"\xff"}', b'\xff{"id":1}'])
    assert found.taken.tolist() == [*[True] * 20, False, False, False]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ('{"id":1,"s":null,"d":null}', 0),
        ('{"id":1,"d":"1.50"}', 0),
        ('{"id":1,"s":"\\"\\\\\\u0022"}', 0),
        (' \n{\n"id"\t:\r1\n}\n', 0),
        ('{"id":1,"zz":{"a":[1,"x"]},"y\\"":null}', 2),
        ('{"\\u0069d":1,"ts":"2024-07-01t00:30:00.123456789+02:00"}', 0),
    ],
)
def test_a_right_record_is_taken_whatever_its_form(text: str, unknown: int) -> None:
    found = taken(DDL, [text.encode()] * 10)
    assert found.taken.all()
    assert found.unknown.tolist() == [unknown] * 10


@pytest.mark.parametrize("share", [1, 10, 50])
@pytest.mark.parametrize(
    "bad", ['{"id":"many","was":1}', '{"id":1,"d":1.005}', '{"id":', '{"id":1,"dt":"2024-02-30"}']
)
def test_a_bad_record_keeps_no_other_one_from_the_fast_lane(bad: str, share: int) -> None:
    payloads = [bad.encode() if at % 100 < share else text for at, text in enumerate(good(2000))]
    found = taken(DDL, payloads)
    assert [at for at in range(2000) if not found.taken[at]] == [at for at in range(2000) if at % 100 < share]


def test_a_default_is_for_a_field_that_is_absent(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(spark, tmp_path, "a INT, b STRING", fields={"a": {"default": 7}})
    payloads = [b'{"b":"x"}', b'{"a":null,"b":"x"}', b'{"a":1}', b'{"b":"null"}'] * 5
    rows = Decoder(plan).decode(pa.array(payloads, pa.binary())).field("row").to_pylist()
    assert [r["a"] for r in rows] == [7, None, 1, 7] * 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"id":', "the end at byte 6"),
        ("{'id':1}", "' at byte 1"),
        ('{"é":01}', "a digit at byte 7"),
        ('{"id":NaN}', "NaN at byte 6"),
        ('{"id":tru}', "a letter at byte 6"),
        ('{"s":"secret', "a string without its end at byte 5"),
        ('\ufeff {"id":1,}', "} at byte 12"),
        ('{"s":"a\tb"}', "a character at byte 7"),
        ('{"id":' + "1" * 1001 + "}", "a number of more than 1000 characters at byte 6"),
        ('{"id":' + "[" * 1001, "a value nested deeper than 1000 at byte 1005"),
        ("{} x", None),
    ],
)
def test_the_fault_names_the_place_when_a_text_is_not_json(text: str, found: str | None) -> None:
    outcome = lanes(DDL)[1].decide(text.encode())
    assert outcome.code == ("MALFORMED_JSON" if found else "TRAILING_DATA")
    assert outcome.faults[0].found == found


def test_a_thousand_levels_are_read_and_written(spark: SparkSession, tmp_path: Path) -> None:
    deep = "[" * 999 + "]" * 999
    plan = plan_of(spark, tmp_path, "s STRING")
    rows = Decoder(plan).decode(pa.array([f'{{"s":{deep}}}'.encode()])).field("row").to_pylist()
    assert rows == [{"s": deep}]


def test_a_record_s_faults_are_kept_up_to_a_number_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of(spark, tmp_path, "l ARRAY<INT>, s STRING NOT NULL, a BIGINT")
    wrong = json.dumps({"l": ["x"] * 50, "a": 10**30}).encode()
    (failure,) = Decoder(plan).decode(pa.array([wrong])).field("failure").to_pylist()
    assert failure["code"] == "TYPE_MISMATCH"
    assert [f["field"] for f in failure["faults"]] == [f"l[{at}]" for at in range(20)]
    assert failure["message"].endswith("; and 47 more")


def test_the_code_is_that_of_all_faults_when_it_is_not_among_the_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = plan_of(spark, tmp_path, "l ARRAY<STRUCT<a: INT NOT NULL>>, i INT")
    wrong = json.dumps({"l": [{}] * 30, "i": "x"}).encode()
    (failure,) = Decoder(plan).decode(pa.array([wrong])).field("failure").to_pylist()
    assert failure["code"] == "TYPE_MISMATCH"
    assert {f["message"].split(":")[0] for f in failure["faults"]} == {"REQUIRED_FIELD"}


HUGE = {
    "empty objects": b'{"l":[' + b",".join([b"{}"] * 300_000) + b"]}",
    "equal keys": b"{" + b",".join([b'"k":1'] * 150_000) + b"}",
    "unknown keys": b"{" + b",".join(b'"k%d":1' % at for at in range(70_000)) + b"}",
    "escaped quotes": b'{"s":"' + b'\\"' * 450_000,
    "digits": b'{"i":' + b"1" * 900_000 + b"}",
    "levels": b'{"z":' + b"[" * 450_000,
    "line ends": b'{"i":1' + b"\n" * 900_000 + b"}",
}


@pytest.mark.parametrize("what", HUGE)
def test_a_record_of_a_megabyte_costs_little_whatever_is_in_it(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    inner = ", ".join(f"{name}: INT NOT NULL" for name in "abcde")
    plan = plan_of(spark, tmp_path, f"l ARRAY<STRUCT<{inner}>>, s STRING, i INT")
    began = time.process_time()
    found = Decoder(plan).decode(pa.array([HUGE[what]] * 2))
    assert time.process_time() - began < 20
    assert found.field("failure").nbytes < 20_000


def test_a_slice_has_few_bytes_and_few_records() -> None:
    payloads = pa.array([b"x" * 3_000_000] * 5 + [b"x"] * 25_000 + [b"x" * 20_000_000, None, b"x"])
    slices = [*Decoder.slices_of(payloads)]
    assert [payloads[s].nbytes < SLICE_BYTES + 200_000 or s.stop - s.start == 1 for s in slices] == [
        True
    ] * len(slices)
    assert [at for s in slices for at in range(s.start, s.stop)] == [*range(len(payloads))]
    assert max(s.stop - s.start for s in slices) == 10_000


def test_the_path_of_a_fault_is_cut_as_a_maps_keys_are_the_producers(
    spark: SparkSession, tmp_path: Path
) -> None:
    payload = json.dumps({"m": {"k" * 4000: {f"f{at}": "x" for at in range(20)}}}).encode()
    members = ", ".join(f"f{at}: INT" for at in range(20))
    plan = plan_of(spark, tmp_path, f"m MAP<STRING, STRUCT<{members}>>", supported_formats=["JSON"])
    found = explain(None, payload, plan)[0]
    assert [len(fault["field"]) for fault in found.faults] == [201] * 20
    assert found.message is not None
    assert len(found.message) < 2000
