"""Exports dead letters to JSON lines, as fixtures and for `tidemark decode`, and imports them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_DDL, DEAD_LETTER_ID
from tidemark.dead_letters.columns import schema_of
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dead_letters.exported import ExportedDeadLetter, read_line
from tidemark.platform.local_rows import rows_of
from tidemark.transform.decode.scalar import LAST_MICROS

_BINARY = {records.KEY: "key_b64", records.PAYLOAD: "value_b64"}
_IMPORTED_AT_ONCE = 1000
_BYTES_AT_ONCE = 16 * 2**20


def export(dead_letters: DataFrame, out: TextIO) -> int:
    """Write `DeadLetterTable.dead_letters`, one JSON object a line; returns how many. In memory: one partition."""
    written = 0
    for row in collectable(dead_letters).orderBy(DEAD_LETTER_ID).toLocalIterator():
        out.write(json.dumps(as_line(row.asDict()), ensure_ascii=False) + "\n")
        written += 1
    return written


def collectable(dead_letters: DataFrame) -> DataFrame:
    """The dead letters with timestamps that Python can hold: one after the year 9999, of a producer that sent
    microseconds as milliseconds, becomes the end of that year. The DLQ topic keeps the original.
    """
    last = F.timestamp_micros(F.lit(LAST_MICROS))
    moments = {name: F.col(name) for name in (records.TIMESTAMP, "failed_at")}
    return dead_letters.withColumns({n: F.when(at > last, last).otherwise(at) for n, at in moments.items()})


def as_line(dead_letter: Mapping[str, Any]) -> dict[str, Any]:
    """A dead letter for JSON: bytes in base64 (`key_b64`, `value_b64`), timestamps in ISO 8601."""
    line: dict[str, Any] = {}
    for name, value in dead_letter.items():
        if name in _BINARY:
            line[_BINARY[name]] = _base64(value)
        elif name == records.HEADERS:
            line[name] = [{"name": h["name"], "value_b64": _base64(h["value"])} for h in value or []]
        else:
            line[name] = value.isoformat() if isinstance(value, datetime) else value
    return line


def import_dead_letters(spark: SparkSession, table: DeadLetterTable, file: Path) -> int:
    """Merge the dead letters of an exported file into the DLQ table; returns how many lines it had.

    In memory: at most 1,000 dead letters, or 16 MB of lines. Raises UsageError with file, line and key for a line
    that is not an exported dead letter; nothing is written then.
    """
    lines = sum(len(chunk) for chunk in chunks_of(file))
    table.create(spark)
    columns = schema_of(DEAD_LETTER_DDL).names
    for chunk in chunks_of(file):
        table.merge(rows_of(spark, [each.row(columns) for each in chunk], DEAD_LETTER_DDL))
    return lines


def chunks_of(
    file: Path, *, most: int = _IMPORTED_AT_ONCE, most_bytes: int = _BYTES_AT_ONCE
) -> Iterator[list[ExportedDeadLetter]]:
    """The dead letters of an exported file in chunks of bounded size; never an empty chunk.

    Raises UsageError as `import_dead_letters`, when it reaches the line.
    """
    chunk: list[ExportedDeadLetter] = []
    size_of_chunk = 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            dead_letter = read_line(ExportedDeadLetter, line, f"{file}, line {number}")
            if chunk and (len(chunk) == most or size_of_chunk + len(line) > most_bytes):
                yield chunk
                chunk, size_of_chunk = [], 0
            chunk.append(dead_letter)
            size_of_chunk += len(line)
    if chunk:
        yield chunk


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(bytes(value)).decode()
