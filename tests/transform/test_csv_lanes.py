"""The two lanes of CSV: what the fast one takes is what the strict one says, and it takes what is usual."""

from __future__ import annotations

import random
from calendar import monthrange
from typing import Any

import pyarrow as pa
import pytest

from tidemark.config.decoding import CsvDialect, FieldOptions
from tidemark.transform.decode.arrow_types import struct_type
from tidemark.transform.decode.csv.fast import FEW, CsvArrow
from tidemark.transform.decode.csv.strict import CsvText
from tidemark.transform.decode.outcome import Outcome
from tidemark.transform.fields import Field
from tidemark.transform.schema import finish_fields
from tidemark.transform.schema_ddl import fields_from_ddl

USUAL: dict[str, list[str]] = {
    "TINYINT": ["1", "-128", "007"],
    "INT": ["2147483647", "-2147483648", "-0"],
    "BIGINT": ["9199999999999999999", "-9223372036854775", "000000000000000001"],
    "DOUBLE": ["1.5", "1.", "-0.0", "1e3", "9007199254740993", "-9.99E+99", "1e-99"],
    "FLOAT": ["16777217", "1.00000017881393432", "99999999e29", "0.00000000000000000001e-19"],
    "DECIMAL(4,2)": ["1.5", "-99.99", "01", "-0"],
    "DECIMAL(2,2)": ["0.25", "-0.5", "0"],
    "DECIMAL(38,0)": ["9" * 38, "-1"],
    "BOOLEAN": ["true", "True", "TRUE", "false"],
    "DATE": ["2024-02-29", "0001-01-01", "9999-12-31"],
    "TIMESTAMP": ["2024-07-01T10:00:00Z", "2024-07-01 10:00:00.5", "0001-01-01T00:00:00"],
    "TIMESTAMP_NTZ": ["2024-07-01T10:00:00", "9999-12-31 23:59:59.999999"],
    "BINARY": ["YWJj", "YWI=", "YQ==", "++//"],
    "STRING": ["x", "é😀", " #x ", "a'b", "\x00", "n/a"],
}
UNUSUAL: dict[str, list[str]] = {
    "TINYINT": ["128", "+5", "1.0", " 1", "1_0", "0x1", "٣", ""],
    "INT": ["2147483648", "-2147483649", "1e3", "9" * 18],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "9" * 30, "-9300000000000000000"],
    "DOUBLE": [".5", "1e400", "NaN", "Infinity", "-inf", "1d", "1e999999999", "9" * 400],
    "FLOAT": ["3.4028236e38", "1e39", "1e-60", "nan"],
    "DECIMAL(4,2)": ["1.505", "100", "1e1", "1e-999999999", "+1", "1."],
    "DECIMAL(2,2)": ["1.25", ".25"],
    "DECIMAL(38,0)": ["9" * 39, "1.0"],
    "BOOLEAN": ["tRUE", "1", "t", "yes"],
    "DATE": ["2023-02-29", "1900-02-29", "0000-01-01", "2024-7-1", "2024-07-01T00:00:00"],
    "TIMESTAMP": ["2024-07-01", "2024-07-01T10:00:00+02:00", "2024-07-01T24:00:00Z", "2024-07-01T10:00:00ZZ"],
    "TIMESTAMP_NTZ": ["2024-07-01T10:00:00Z", "2024-07-01"],
    "BINARY": ["YW=", "YW", "Y===", "YW==YW=="],
    "STRING": ['"', "\r", "\n", "\ufeff", "NULL"],
}
DDL = ", ".join(f"c{n} {kind}" for n, kind in enumerate(USUAL))
OPTIONS = {"c1": FieldOptions(required=True), "c9": FieldOptions(default="2024-01-01")}


def fields_of(ddl: str, options: dict[str, FieldOptions] | None = None) -> tuple[Field, ...]:
    fields, wrong = finish_fields(fields_from_ddl(ddl), options or {})
    assert not wrong
    return fields


def both(
    fields: tuple[Field, ...], dialect: CsvDialect, lines: list[bytes]
) -> tuple[list[Any], list[Outcome]]:
    """Of each line the fast lane's row or None, and what the strict lane says; they agree."""
    padded = lines + lines[:1] * max(0, FEW - len(lines))
    rows, taken = CsvArrow(fields, dialect).read(pa.array(padded, pa.binary()))
    rows.validate(full=True)
    strict = [CsvText(fields, dialect).decide(line) for line in lines]
    wanted = pa.array([outcome.row for outcome in strict], struct_type(fields))
    for at, flag in enumerate(taken.to_pylist()[: len(lines)]):
        assert rows[at].is_valid == flag
        # By their text: 0.0 is not -0.0.
        assert not flag or str(rows[at]) == str(wanted[at]), (lines[at], strict[at])
    return rows.to_pylist()[: len(lines)], strict


@pytest.mark.parametrize("seed", range(12))
def test_both_lanes_say_the_same_when_lines_are_random(seed: int) -> None:
    chance = random.Random(seed)
    fields = fields_of(DDL, OPTIONS)
    dialect = CsvDialect(
        delimiter=",;\t|"[seed % 4],
        quote="\"'"[seed % 2],
        escape=[None, "\\", '"'][seed % 3],
        null_text=["", "NULL", "0", "-1", '"'][seed % 5],
        header=seed % 4 == 3,
    )

    def field(kind: str) -> str:
        usual, mark = chance.random() < 0.97, dialect.quote
        text = chance.choice(USUAL[kind] if usual else [*UNUSUAL[kind], dialect.null_text])
        return mark + text.replace(mark, mark * 2) + mark if chance.random() < 0.2 else text

    lines = []
    for _ in range(400):
        line = dialect.delimiter.join(map(field, USUAL)) + chance.choice(["", "\n", "\r\n", "\r", ""])
        if dialect.header:
            line = dialect.delimiter.join(f.name for f in fields) + "\n" + line
        if chance.random() < 0.1:
            at = chance.randint(0, len(line))
            line = line[:at] + chance.choice(["\udcff", "", '"', "\n", ",", "\\"]) + line[at + 1 :]
        lines.append(line.encode(errors="surrogateescape"))
    found, _ = both(fields, dialect, lines)
    assert sum(row is not None for row in found) > len(lines) // 4


def test_the_fast_lane_takes_what_is_usual_bare_and_in_quotes() -> None:
    fields = fields_of(DDL, OPTIONS)
    most = max(map(len, USUAL.values()))
    rows = [[texts[n % len(texts)] for texts in USUAL.values()] for n in range(most)]
    for end in ("", "\n", "\r\n"):
        bare = [(",".join(row) + end).encode() for row in rows]
        quoted = [(",".join(f'"{text}"' for text in row) + end).encode() for row in rows]
        found, _ = both(fields, CsvDialect(), bare + quoted)
        assert None not in found
        assert found[:most] == found[most:]


def test_the_fast_lane_takes_every_day_that_there_is_and_no_other() -> None:
    fields = fields_of("d DATE, s STRING")
    years = [0, 1, 4, 99, 100, 400, 999, 1000, 1582, 1900, 1970, 2000, 2023, 2024, 2100, 9600, 9999]
    days = [f"{y:04d}-{m:02d}-{d:02d}" for y in years for m in range(14) for d in range(33)]
    found, _ = both(fields, CsvDialect(), [f"{day},x".encode() for day in days])

    def exists(day: str) -> bool:
        year, month, number = map(int, day.split("-"))
        return year > 0 and 0 < month < 13 and 0 < number <= monthrange(year, month)[1]

    assert [row is not None for row in found] == [exists(day) for day in days]


def test_a_null_is_no_quoted_text_and_takes_the_default() -> None:
    fields = fields_of("a INT, b STRING, c INT, d STRING NOT NULL", {"c": FieldOptions(default=7)})
    found, strict = both(fields, CsvDialect(), [b",,,x", b'1,"",2,""', b"1,,2,", b'"",,,x'])
    assert found == [
        {"a": None, "b": None, "c": 7, "d": "x"},
        {"a": 1, "b": "", "c": 2, "d": ""},
        None,
        None,
    ]
    assert [o.code for o in strict] == [None, None, "REQUIRED_FIELD", "TYPE_MISMATCH"]


@pytest.mark.parametrize(
    ("ddl", "csv"),
    [
        ("a INT", {}),
        ("a INT, b ARRAY<INT>", {}),
        ("a INT, b STRING", {"delimiter": "-"}),
        ("a INT, b STRING", {"delimiter": "§"}),
        ("a INT, b STRING", {"quote": "1"}),
        ("a INT, `b,c` STRING", {"header": True}),
    ],
)
def test_there_is_no_fast_lane_when_a_value_could_be_mistaken(ddl: str, csv: dict[str, Any]) -> None:
    assert CsvArrow(fields_from_ddl(ddl), CsvDialect.model_validate(csv)).pattern is None


HEADED = fields_of("a INT, b STRING, `c c` INT")
NO_HEADER = "a header that names a, b, c c"


@pytest.mark.parametrize(
    ("payload", "wanted"),
    [
        ("a,b,c c\n1,x,2", (1, "x", 2)),
        ("\ufeffa,b,c c\r\n1,x,2\r\n", (1, "x", 2)),
        ("b,c c,a\n1,2,3", (3, "1", 2)),
        ('"c c","a","b"\n1,2,3', (2, "3", 1)),
        ("1,x,2", (1, "x", 2)),
        ("1,x,2\n", (1, "x", 2)),
        ("1,x,2\n3,y,4", ("MALFORMED_CSV", NO_HEADER, "1,x,2")),
        ("a,b\n1,x", ("MALFORMED_CSV", NO_HEADER, "a,b")),
        ("a,b,c c,d\n1,x,2,3", ("MALFORMED_CSV", NO_HEADER, "a,b,c c,d")),
        ("a,a,b\n1,2,x", ("MALFORMED_CSV", NO_HEADER, "a,a,b")),
        ("A,b,c c\n1,x,2", ("MALFORMED_CSV", NO_HEADER, "A,b,c c")),
        ("a,b,c c", ("MALFORMED_CSV", "a record after the header", "a,b,c c")),
        ("a,b,c c\r\n", ("MALFORMED_CSV", "a record after the header", "a,b,c c")),
        ("b,a,c c\n1,x", ("COLUMN_COUNT", "3 fields", "2 fields")),
        ("b,a,c c\n1,x,2\n3,y,4", ("MALFORMED_CSV", "one line by RFC 4180", None)),
    ],
)
def test_a_header_names_the_columns_whatever_their_order(payload: str, wanted: tuple[Any, ...]) -> None:
    _, (outcome,) = both(HEADED, CsvDialect(header=True), [payload.encode()])
    if outcome.row is not None:
        assert tuple(outcome.row.values()) == wanted
    else:
        (fault,) = outcome.faults
        assert (fault.code, fault.expected, fault.found) == wanted


def test_a_fault_names_its_field_and_hides_a_secret() -> None:
    fields = fields_of("a INT, b DATE, c DOUBLE", {"c": FieldOptions(secret=True)})
    outcome = CsvText(fields, CsvDialect()).decide(b"x,2024-02-30,1e999")
    assert [(f.code, f.field, f.expected, f.found) for f in outcome.faults] == [
        ("TYPE_MISMATCH", "a", "INT", "x"),
        ("TIMESTAMP_UNPARSABLE", "b", "DATE", "2024-02-30"),
        ("NUMBER_OUT_OF_RANGE", "c", "DOUBLE", None),
    ]
    assert outcome.code == "TYPE_MISMATCH"
