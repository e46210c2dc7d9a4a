"""How a patch file fixes a value, and how a file names dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidemark.contract.errors import UsageError
from tidemark.dead_letters.selection import merge_patch, read_dead_letters


@pytest.mark.parametrize(
    ("value", "patch", "wanted"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_is_merged_as_the_standard_has_it(value: Any, patch: Any, wanted: Any) -> None:
    assert merge_patch(value, patch) == wanted


def test_dead_letters_are_read_from_a_file_without_comments_and_empty_lines(tmp_path: Path) -> None:
    file = tmp_path / "letters.txt"
    file.write_text("# those of Monday\norders:0:17\n\n  a:b:1:2  \n", encoding="utf-8")
    assert read_dead_letters(file) == ("orders:0:17", "a:b:1:2")


def test_the_line_is_named_when_a_file_of_dead_letters_has_something_else(tmp_path: Path) -> None:
    file = tmp_path / "letters.txt"
    file.write_text("orders:0:17\norders-0-18\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"line 2: `orders-0-18`"):
        read_dead_letters(file)
