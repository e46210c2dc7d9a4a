"""The runbook has a section for each way that Tidemark stops, and quotes what the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from tidemark.contract import errors

ROOT = Path(__file__).parents[2]
RUNBOOK = ROOT / "docs" / "runbook.md"
OF_OTHERS = {
    *("tini -g", "Connection reset", "Disk quota exceeded", "No space left on device", "timed out"),
    *("violated by row with values", "DROP CONSTRAINT", "ALTER TABLE", "list --code", "fingerprints show"),
}
"""What Kafka, Delta, Java, a system or a shell says, or a command."""
PUT_TOGETHER = {
    *("Kafka refused topic", "fingerprints: the clock went back", "has cleanup.policy"),
    *("refuses a row of the batch (partition", "that were not read yet: partition"),
}
"""A text and what is filled in: `Kafka refused …` with `topic …`."""


def texts() -> Iterator[str]:
    """Each text in the code, with … for what is filled in."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield from map("".join, product(*map(written, node.values)))


def written(part: ast.expr) -> tuple[str, ...]:
    """What a part of a formatted text can be; of a choice between two texts, both."""
    if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.IfExp):
        return *written(part.value.body), *written(part.value.orelse)
    return (str(part.value) if isinstance(part, ast.Constant) else "…",)


def quoted(page: str) -> Iterator[str]:
    """The parts of what the page quotes of messages, without what is filled in."""
    for quote in re.findall(r"`([^`]+)`", page):
        if " " in quote and not re.match(r"tidemark |--|[a-z-]+: \w+$", quote):
            for part in re.split(r'…|="[^"]*"|=\S+|\bWRITE\b', re.sub(r"\s+", " ", quote)):
                yield part.strip(" ,:;()")


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


def test_what_the_runbook_quotes_of_a_message_is_in_the_code() -> None:
    corpus = "\n".join(texts())
    parts = {part for part in quoted(RUNBOOK.read_text(encoding="utf-8")) if " " in part}
    assert len(parts) > 60
    assert {part for part in parts if part not in corpus} - OF_OTHERS - PUT_TOGETHER == set()
