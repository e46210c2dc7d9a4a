"""The fast lane of CSV: what it takes comes out as from the strict reader, and what it cannot it leaves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.transform.samples import code, decoded, outcomes, plan_of

from tidemark.config.decoding import CsvDialect
from tidemark.transform.decode.csv.fast import line_pattern
from tidemark.transform.schema_ddl import fields_from_ddl

TEXTS: dict[str, list[str]] = {
    "TINYINT": ["1", "-128", "128", "+5", "007", "1.0", "1e1", " 1", "1 ", "1_0", "1L"],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "-0", "1e3", "٣"],
    "DOUBLE": ["1.5", "1", "1.", ".5", "1e3", "1E-400", "1e999", "NaN", "Infinity", "1d", "0x1p3", "+1.5"],
    "FLOAT": ["3.4028236e38", "16777217"],
    "DECIMAL(4,2)": ["1.5", "+1.50", "1.505", "99.99", "100", "0001", "1e1", "1e-999999999", "1e99999999"],
    "DECIMAL(2,2)": ["0.25", "1.25", ".25", "0"],
    "BOOLEAN": ["true", "True", "TRUE", "tRUE", "false", "1", "t"],
    "DATE": ["2024-07-01", "2024-7-1", "2024-02-30", "0000-01-01", "10000-01-01", "2024-07-01T00:00:00"],
    "TIMESTAMP": [
        *("2024-07-01T10:00:00Z", "2024-07-01 10:00:00", "2024-07-01T10:00:00.123", "2024-07-01T10:00:00.5"),
        *("2024-07-01T10:00:00NZ", "2024-07-01T24:00:00Z", "2024-02-30 10:00:00", "2024-07-01", "now"),
        *("0000-12-31T23:59:59Z", "9999-12-31T23:59:59.999999", "2024-07-01T10:00:00+02:00"),
    ],
    "TIMESTAMP_NTZ": ["2024-07-01T10:00:00", "2024-07-01 10:00:00.25", "2024-07-01T10:00:00Z"],
    "BINARY": ["YWJj", "YWI=", "YW=", "YWJj\n"],
    "STRING": ["x", "é😀", "#x", "a'b", "NULLS", " ", "?"],
}  # fmt: skip


@pytest.mark.parametrize("end", ["", "\r\n"])
def test_a_value_is_the_same_when_it_stands_in_quotes(spark: SparkSession, tmp_path: Path, end: str) -> None:
    """In quotes the strict reader takes it; NULL is what no text is."""
    ddl = ", ".join(f"c{n} {kind}" for n, kind in enumerate(TEXTS))
    plan = plan_of(spark, tmp_path, ddl, supported_formats=["CSV"], csv={"null-text": "NULL"})
    cases = [(n, text) for n, texts in enumerate(TEXTS.values()) for text in texts if "\n" not in text]
    bare, quoted = [
        [",".join(f(text) if n == at else "NULL" for n in range(len(TEXTS))) + end for at, text in cases]
        for f in (str, '"{}"'.format)
    ]
    found = outcomes(spark, [line.encode() for line in (*bare, *quoted)], plan)

    reported = [code(r) or repr(decoded(r, plan)) for r in found]
    assert [*zip(cases, reported[: len(cases)], strict=True)] == [
        *zip(cases, reported[len(cases) :], strict=True)
    ]
    assert sum(r.row is not None for r in found) > len(cases) // 2


def test_lines_have_the_usual_shape_when_the_dialect_has_signs_of_patterns() -> None:
    dialect = CsvDialect.model_validate({"delimiter": "|", "quote": "^", "null-text": "\\N"})
    shape = line_pattern(fields_from_ddl("a INT, b STRING, c DATE"), dialect)
    assert shape is not None
    # Python has no \z before 3.14.
    taken = re.compile(shape.replace(r"\z", r"\Z"))
    lines = ["1|x|2024-07-01", "\\N||\\N", "1|x|2024-07-01\r\n", "N|x|\\N", "1|^x^|\\N", "1|x", "1|x|\\N|"]
    assert [bool(taken.search(line)) for line in lines] == [True, True, True, False, True, False, False]
