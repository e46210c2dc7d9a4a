"""Exported dead letters are read back a bounded number at a time, and a wrong line is named."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from pyspark.sql import types as T

from tidemark.contract import records
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.files import chunks_of

SCHEMA = (
    T.StructType()
    .add("letter_id", T.StringType())
    .add(records.KEY, T.BinaryType())
    .add(records.PAYLOAD, T.BinaryType())
    .add("failed_at", T.TimestampType())
)


def line(number: int, size: int = 1) -> str:
    value = base64.b64encode(b"x" * size).decode()
    return json.dumps(
        {
            "letter_id": f"t:0:{number}",
            "key_b64": None,
            "value_b64": value,
            "failed_at": None,
            "x": "a\u2028b",
        }
    )


def written(folder: Path, *lines: str) -> Path:
    file = folder / "letters.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_dead_letters_come_in_chunks_of_at_most_so_many_and_at_most_so_many_bytes(tmp_path: Path) -> None:
    file = written(tmp_path, *[line(n) for n in range(7)], line(7, 3000), *[line(n) for n in range(8, 10)])
    chunks = list(chunks_of(file, SCHEMA, most=3, most_bytes=1000))
    assert [len(chunk) for chunk in chunks] == [3, 3, 1, 1, 2]
    assert [row[0] for chunk in chunks for row in chunk] == [f"t:0:{n}" for n in range(10)]
    assert list(chunks_of(written(tmp_path, *[line(n) for n in range(1001)]), SCHEMA))[1][0][0] == "t:0:1000"


@pytest.mark.parametrize("wrong", ["", "{}", "[]", "no json", '{"letter_id": "a", "key_b64": "?"}'])
def test_the_line_is_named_when_it_is_no_exported_dead_letter(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(UsageError, match=r"letters\.jsonl, line 2: not an exported dead letter"):
        list(chunks_of(written(tmp_path, line(1), wrong, line(3)), SCHEMA))
