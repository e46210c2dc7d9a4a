"""Each guarantee is named by the tests that hold it, and docs/guarantees.md says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.guarantees import PAGE, markers, page

SAMPLES = Path(__file__).parents[2] / "fixtures" / "cases.jsonl"
SAMPLED = "`test_each_record_has_its_route_code_and_row_when_decoded`"
KINDS = {
    "decode": 14, "number": 3, "time": 6, "schema": 7, "merge": 5,
    "checkpoint": 5, "kafka": 11, "dlq": 5, "replay": 2, "ops": 4,
}  # fmt: skip
LINES = {"fault": 31, "reliability": 18, "fault tolerance": 15, "bad day": 30, "listener": 16, "reports": 17}


def test_the_page_is_what_the_markers_of_the_tests_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_reported_case_is_held() -> None:
    assert set(markers()["case"]) == {
        f"{kind}-{n:02}" for kind, count in KINDS.items() for n in range(1, count + 1)
    }


@pytest.mark.parametrize(("group", "least"), LINES.items())
def test_no_line_of_a_group_has_lost_its_test(group: str, least: int) -> None:
    assert len(markers()[group]) >= least


def test_a_case_is_held_by_its_samples_exactly_when_it_has_some() -> None:
    sampled = {json.loads(line)["case"] for line in SAMPLES.read_text(encoding="utf-8").splitlines()}
    assert sampled == {case for case, tests in markers()["case"].items() if SAMPLED in tests}
