"""Exported dead letters are read back a bounded number at a time, and a wrong line is named."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tidemark.contract.errors import UsageError
from tidemark.dead_letters.files import chunks_of


def line(number: int, size: int = 1) -> str:
    value = base64.b64encode(b"x" * size).decode()
    return json.dumps(
        {
            "letter_id": f"t:0:{number}",
            "stream_topic": "t",
            "stream_partition": 0,
            "stream_offset": number,
            "key_b64": None,
            "value_b64": value,
            "failed_at": None,
            "x": "a\u2028b",
        }
    )


def but(**changed: object) -> str:
    return json.dumps({**json.loads(line(2)), **changed})


def written(folder: Path, *lines: str) -> Path:
    file = folder / "letters.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_dead_letters_come_in_chunks_of_at_most_so_many_and_at_most_so_many_bytes(tmp_path: Path) -> None:
    file = written(tmp_path, *[line(n) for n in range(7)], line(7, 3000), *[line(n) for n in range(8, 10)])
    chunks = list(chunks_of(file, most=3, most_bytes=1000))
    assert [len(chunk) for chunk in chunks] == [3, 3, 1, 1, 2]
    assert [each.letter_id for chunk in chunks for each in chunk] == [f"t:0:{n}" for n in range(10)]
    assert list(chunks_of(written(tmp_path, *[line(n) for n in range(1001)])))[1][0].letter_id == "t:0:1000"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "no JSON: "),
        ("no json", "no JSON: "),
        ("[" * 100_000, "no JSON: "),
        ("[]", "Input should be a valid dictionary"),
        (
            "{}",
            "stream_topic: Field required; stream_partition: Field required; stream_offset: Field required; "
            "key_b64: Field required; value_b64: Field required; letter_id: Field required)",
        ),
        (but(key_b64="?"), "key_b64: Value error, Only base64 data is allowed)"),
        (but(letter_id="t:0:3"), "Value error, letter_id is not that of the line's coordinates)"),
        (but(stream_offset=None), "stream_offset: Input should be a valid integer)"),
        (but(stream_offset="2"), "stream_offset: Input should be a valid integer)"),
        (but(dlq_partition=2**31), "dlq_partition: Input should be less than 2147483648)"),
        (but(retriable="yes"), "retriable: Input should be a valid boolean)"),
        (but(failed_at="yesterday"), "failed_at: Value error, Invalid isoformat string: 'yesterday')"),
        (but(failure_message="\ud800"), "failure_message: Value error, has half a surrogate pair)"),
    ],
    ids=lambda value: value[:40],
)
def test_a_line_is_named_with_all_its_faults(tmp_path: Path, wrong: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        list(chunks_of(written(tmp_path, line(1), wrong, line(3))))
    assert f"letters.jsonl, line 2: not an exported dead letter ({said}" in str(raised.value)
