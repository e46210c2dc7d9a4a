"""Random records, right and wrong in many fields at once: the real decode and a second one agree."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.transform import reference
from tests.transform.reference import Kind
from tests.transform.samples import plan_of

from tidemark.transform import DecodePlan
from tidemark.transform.decode.decoder import Decoder

RECORDS = 3000
EPOCHS = {"es": {"epoch": "s"}, "em": {"epoch": "ms"}}
INT = ("int", -(2**31), 2**31 - 1)
COLUMNS: dict[str, tuple[str, Kind, list[str]]] = {
    "t": ("TINYINT", ("int", -128, 127), ["0", "1.0", "-128", "1e1"]),
    "i": ("INT", INT, ["5", "-7", "1e3", "7.0"]),
    "b": ("BIGINT", ("int", -(2**63), 2**63 - 1), ["0", "9007199254740993", "-1"]),
    "d": ("DECIMAL(10,2)", ("decimal", 10, 2), ["0", "1.5", "12345678.90", "-0.01", "1e2"]),
    "x": ("DOUBLE", ("double",), ["0", "1.5", "-0.0", "1e300"]),
    "f": ("FLOAT", ("float",), ["0", "0.1", "-2.5", "1.00000017881393432617187499"]),
    "s": ("STRING", ("text",), ['"a"', '""', "1.0", "true", "-0", '"}"', '"1e5"', "1e5", '"{\\"a\\":1}"']),
    "u": ("STRING", ("text",), ['"x y"', '"null"', '"\\\\"', '"é"', '"a\\"b"', "[1.50, 2]"]),
    "o": ("BOOLEAN", ("boolean",), ["true", "false"]),
    "ts": ("TIMESTAMP", ("timestamp",), ['"2024-07-01T00:30:00Z"', '"2024-07-01T00:30:00.123Z"']),
    "dt": ("DATE", ("date",), ['"2024-07-01"', '"1999-12-31"']),
    "nt": ("TIMESTAMP_NTZ", ("local",), ['"2024-07-01T00:30:00"', '"2024-07-01 00:30:00.5"']),
    "es": ("TIMESTAMP", ("epoch", 6), ["0", "1719793800", "-5", "1.5"]),
    "em": ("TIMESTAMP", ("epoch", 3), ["1719793800000", "-1", '"2024-07-01T00:30:00+02:00"']),
}  # fmt: skip
NESTED: dict[str, tuple[str, Kind, list[str]]] = {
    "m": ("MAP<STRING, STRING>", ("map", ("text",)), ["{}", '{"a":1.50,"b":null}', '{"é":"x"}']),
    "l": ("ARRAY<INT>", ("array", INT), ["[]", "[1,2.0,null]"]),
    "lt": ("ARRAY<TIMESTAMP>", ("array", ("timestamp",)), ["[]", '["2024-07-01T00:30:00Z",null]']),
    "st": (
        "STRUCT<a: INT, b: STRING, c: DECIMAL(10,2)>",
        ("struct", {"a": INT, "b": ("text",), "c": ("decimal", 10, 2)}),
        ["{}", '{"a":1,"b":"x","c":1.50}', '{"b":null}'],
    ),
}
_NUMBERS = """0 1 -1 -0 0.0 -0.0 1.0 1.5 127 128 -129 2147483647 2147483648 -2147483648.0 9223372036854775807
    9223372036854775808 1e2 1E+2 1e-2 12.30 12.345 99999999.99 100000000 1e400 -1e400 1e-400 0e5
    16777217 3.4028235e38 3.4028236e38 1.7976931348623157e308 1.7976931348623159e308 4.9e-324 1.50000
    123456789012345678901234567890 1719793800 1719793800000 253402300799 253402300800 -62135596801 1.0E10
    00 +1 .5 5. 1e 0x1 NaN Infinity - 1_0 --1"""
_TEXTS = """a n1 1 1.0 -0 1.50 true null NaN Infinity -Infinity {} [] } { : ~tidemark~ ~7~ 1E5 0x1 \\
    2024-07-01 2024-07-01T00:30:00Z 2024-07-01T00:30:00.12Z 2024-07-01T00:30:00+05:30 2024-07-01T00:30
    2024-07-01T00:30:00+0530 2024-07-01T00:30:00-08 2024-02-30 2023-02-29T00:00:00Z 0000-02-29 0000-02-30
    0001-01-01 9999-12-31T23:59:59-01:00 0001-01-01T00:00:00+01:00 10000-01-01 2024-07-01T24:00:00Z
    2016-12-31T23:59:60Z 2024-07-01T00:30:00NZ 2024-07-01T1:00:00Z 20240701 2024-W27-1 2024-183 now epoch
    2024-03-31T02:30:00 2024-07-01T00:30:00,5Z 2024-07-01T00:30:00+18:01 9 .5 é 😀 "s":"x"
    "" "i":null"""
NUMBERS, TEXTS = _NUMBERS.split(), _TEXTS.split()
SPOILED = ['"', "}", "{", ",", ":", "\\", "\\u", "\\ud83d", "\n", "'", "0", "-", "\x00", "\u00a0"]
AROUND = [" ", "\n", "}", " {}", "x", ",", "null", "\x00", "\ufeff", "]", ',"~tidemark~"]', ",7]", "//x"]


def json_of(chance: random.Random, columns: dict[str, tuple[str, Kind, list[str]]]) -> bytes:
    """An object of some of the columns: mostly right, often with one fault, at times with many."""
    wild = chance.choice((0, 0, 0, 0.1, 0.5))
    names = [n for n in columns if chance.random() < chance.choice((0.3, 0.9, 1))]
    if chance.random() < 0.3:
        chance.shuffle(names)
    parts = []
    for name in names:
        reported = any_value(chance) if chance.random() < wild else chance.choice([*columns[name][2], "null"])
        key = "".join(f"\\u{ord(c):04x}" if chance.random() < 0.02 else c for c in name)
        parts.append(f'"{key}":{chance.choice(("", "", " "))}{reported}')
    if chance.random() < 0.15:
        unknown = chance.choice(("zz", "S", 'x\\"', "", "si", "is", "\\u0073", "ts "))
        parts.insert(chance.randint(0, len(parts)), f'"{unknown}":{any_value(chance)}')
    if parts and chance.random() < 0.06:
        parts.insert(chance.randint(0, len(parts)), chance.choice(parts))
    return spoiled(chance, "{" + chance.choice((",", ", ", ",\n")).join(parts) + "}")


def any_value(chance: random.Random, depth: int = 0) -> str:
    drawn = chance.random()
    if drawn < 0.4:
        return chance.choice(NUMBERS)
    if drawn < 0.8:
        text = chance.choice(TEXTS).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    if drawn < 0.9 or depth > 1:
        return chance.choice(("true", "false", "null", "nul"))
    inner = [any_value(chance, depth + 1) for _ in range(chance.randint(0, 2))]
    if drawn < 0.95:
        return f"[{', '.join(inner)}]"
    return "{" + ",".join(f'"{chance.choice("abA")}": {each}' for each in inner) + "}"


def csv_of(chance: random.Random, columns: dict[str, tuple[str, Kind, list[str]]]) -> bytes:
    fields = []
    for _, _, right in columns.values():
        reported = (
            chance.choice(right).strip('"')
            if chance.random() < 0.95
            else chance.choice([*NUMBERS, *TEXTS, ""])
        )
        quoted = chance.random() < 0.15 or any(c in reported for c in ',"\n')
        fields.append('"' + reported.replace('"', '""') + '"' if quoted else reported)
    if chance.random() < 0.04:
        fields.append("x")
    return spoiled(chance, ",".join(fields))


def spoiled(chance: random.Random, text: str) -> bytes:
    """The text, at times with something before, behind or in the midst of it, or a byte that is no UTF-8."""
    drawn = chance.random()
    if drawn < 0.05:
        text += chance.choice(AROUND)
    elif drawn < 0.08:
        text = chance.choice(AROUND) + text
    elif drawn < 0.12:
        at = chance.randint(0, len(text) - 1)
        text = text[:at] + chance.choice(SPOILED) + text[at + chance.randint(0, 1) :]
    payload = text.encode()
    if chance.random() < 0.02:
        at = chance.randint(0, len(payload) - 1)
        payload = payload[:at] + bytes([chance.randint(128, 255)]) + payload[at:]
    return payload


def decoded(payloads: list[bytes], plan: DecodePlan) -> list[Any]:
    """Code or row of each payload, as `reference` gives them."""
    found = Decoder(plan).decode(pa.array(payloads, pa.binary()))
    rows = found.field("row")
    columns = {
        f.name: rows.field(f.name).cast(_plain(f.type)).to_pylist(maps_as_pydicts="strict") for f in rows.type
    }
    codes = [None if failure is None else failure["code"] for failure in found.field("failure").to_pylist()]
    return [
        code or {name: reported[at] for name, reported in columns.items() if reported[at] is not None}
        for at, code in enumerate(codes)
    ]


def _plain(kind: pa.DataType) -> pa.DataType:
    """Times as microseconds, dates as text."""
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_date(kind):
        return pa.string()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def comparable(reported: Any) -> Any:
    """Numbers by all their bits: 0.0 is not -0.0, and 1 is 1.00 in a decimal."""
    if isinstance(reported, dict):
        return {k: comparable(v) for k, v in reported.items()}
    if isinstance(reported, list):
        return [comparable(v) for v in reported]
    if isinstance(reported, float):
        return reported.hex()
    return f"{reported.normalize():f}" if isinstance(reported, Decimal) and reported else reported


@pytest.mark.parametrize("kind", ["flat", "nested", "csv"])
def test_a_second_decoder_comes_to_the_same_when_records_are_random(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    chance = random.Random(20240701)
    columns = COLUMNS | NESTED if kind == "nested" else COLUMNS
    schema = {name: of for name, (_, of, _) in columns.items()}
    ddl = ", ".join(f"{name} {sql}" for name, (sql, _, _) in columns.items())
    if kind == "csv":
        payloads = [csv_of(chance, columns) for _ in range(RECORDS)]
        expected = [reference.of_csv(p, schema, ",") for p in payloads]
    else:
        payloads = [json_of(chance, columns) for _ in range(RECORDS)]
        expected = [reference.of_json(p, schema) for p in payloads]
    plan = plan_of(
        spark, tmp_path, ddl, fields=EPOCHS, supported_formats=["CSV" if kind == "csv" else "JSON"]
    )

    found = decoded(payloads, plan)

    surprises = [
        (payload, wanted, got)
        for payload, wanted, got in zip(payloads, expected, found, strict=True)
        if (got not in wanted if isinstance(wanted, frozenset) else comparable(got) != comparable(wanted))
    ]
    assert surprises == []
    assert sum(isinstance(wanted, dict) for wanted in expected) > RECORDS // 4
    assert len({c for wanted in expected if isinstance(wanted, frozenset) for c in wanted}) > 5
