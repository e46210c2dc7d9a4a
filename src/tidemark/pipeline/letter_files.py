"""Dead letters in files: a fixture for the tests and for `tidemark decode`, and the way back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import LETTER_DDL, LETTER_ID
from tidemark.contract.errors import UsageError
from tidemark.sink.dead_letter_table import LetterTable, schema_of

_BINARY = {records.KEY: "key_b64", records.PAYLOAD: "value_b64"}
_IMPORTED_AT_ONCE = 1000


def export(letters: DataFrame, out: TextIO) -> int:
    """Write `LetterTable.letters`, one JSON object a line; returns how many. In memory: one partition."""
    written = 0
    for row in letters.orderBy(LETTER_ID).toLocalIterator():
        out.write(json.dumps(as_line(row), ensure_ascii=False) + "\n")
        written += 1
    return written


def as_line(letter: Row) -> dict[str, Any]:
    """A letter as JSON has it: bytes in base64 (`key_b64`, `value_b64`), timestamps in ISO 8601."""
    line: dict[str, Any] = {}
    for name, value in letter.asDict().items():
        if name in _BINARY:
            line[_BINARY[name]] = _base64(value)
        elif name == records.HEADERS:
            line[name] = [{"name": h["name"], "value_b64": _base64(h["value"])} for h in value or []]
        else:
            line[name] = value.isoformat() if isinstance(value, datetime) else value
    return line


def import_letters(spark: SparkSession, table: LetterTable, file: Path) -> int:
    """Merge the letters of an exported file into the DLQ table; returns how many lines it had.

    Raises UsageError with file and line for a line that is no exported letter; nothing is written then.
    """
    rows = list(_rows(file))
    table.create(spark)
    for start in range(0, len(rows), _IMPORTED_AT_ONCE):
        table.merge(spark.createDataFrame(rows[start : start + _IMPORTED_AT_ONCE], schema_of(LETTER_DDL)))
    return len(rows)


def counted(letters: DataFrame) -> list[Row]:
    """How many letters there are per failure code and status, the most frequent first."""
    return (
        letters.groupBy("failure_code", "status")
        .agg(F.count(F.lit(1)).alias("letters"), F.max("failed_at").alias("newest"))
        .orderBy(F.desc("letters"), "failure_code", "status")
        .collect()
    )


def _rows(file: Path) -> Iterator[tuple[Any, ...]]:
    fields = schema_of(LETTER_DDL).fields
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            body = json.loads(line)
            yield tuple(_value(body, field.name, field.dataType.typeName()) for field in fields)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{file}, line {number}: no exported dead letter ({error!r})",
                "tidemark dead-letters export writes such a file",
            ) from error


def _value(body: dict[str, Any], name: str, kind: str) -> Any:
    if name in _BINARY:
        return _bytes(body[_BINARY[name]])
    if name == records.HEADERS:
        return [(h["name"], _bytes(h["value_b64"])) for h in body.get(name, [])]
    value = body[name] if name == LETTER_ID else body.get(name)
    return datetime.fromisoformat(value) if kind == "timestamp" and value is not None else value


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(bytes(value)).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
