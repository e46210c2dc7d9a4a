"""The closed list of failure codes and its documentation say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemark.contract.failure_codes import FailureCode

PAGE = (Path(__file__).parents[2] / "docs" / "failure-codes.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### `?([A-Z0-9_]+)`?\n(.*?)(?=^### |^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_each_code_has_its_heading_in_the_order_of_the_enum() -> None:
    assert list(SECTIONS) == [code.value for code in FailureCode]


@pytest.mark.parametrize("code", FailureCode)
@pytest.mark.parametrize("part", ["**Meaning.**", "**Example.**", "**Who fixes it.**", "**Replay.**"])
def test_each_code_says_what_it_means_and_what_to_do(code: FailureCode, part: str) -> None:
    assert part in SECTIONS[code.value]
