"""The runbook has a section for each way that Tidemark stops."""

from __future__ import annotations

import re
from pathlib import Path

from tidemark.contract import errors

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


def test_each_code_of_a_stop_leads_to_a_page_of_the_runbook() -> None:
    runbook = RUNBOOK.read_text()
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    codes = {kind.condition for kind in kinds if issubclass(kind, errors.TidemarkError)}
    rows = "\n".join(line for line in runbook.splitlines() if line.startswith("| `TIDEMARK_"))
    assert {code for code in codes - {"TIDEMARK"} if f"`{code}`" not in rows} == set()
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^## (.+)$", runbook, re.M)
    }
    assert set(re.findall(r"\(#([^)]+)\)", rows)) <= sections
