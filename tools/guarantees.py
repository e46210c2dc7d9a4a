"""Writes docs/guarantees.md from the `guarantee` markers of the tests: `python -m tools.guarantees`.

A marker's text is `group: line`; that of a fault is `fault: what goes wrong → what happens`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guarantees.md"
GROUPS = {
    "fault": "What happens when something goes wrong",
    "reliability": "Reliability: retries, dead letters, breakers",
    "fault tolerance": "Fault tolerance: what fails, and how it is met",
    "bad day": "A bad day: processes, stores, tables and topics",
    "listener": "The listener: at-least-once delivery",
    "reports": "Report requests",
    "consumers": "What users of Kafka consumers report",
    "case": "Failures that users of Kafka, Spark and Delta reported",
}
HEAD = """# Guarantees

Each line names the tests that hold it. They run against a real broker, real Delta tables, a real S3 protocol and
a real PostgreSQL. `python -m tools.guarantees` writes this page from the tests' `guarantee` markers; a test
compares the two.
"""


def markers() -> dict[str, dict[str, list[str]]]:
    """The tests of each line of each group, in the order of the groups, the lines sorted."""
    found: dict[str, dict[str, list[str]]] = {group: defaultdict(list) for group in GROUPS}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.FunctionDef):
                continue
            for text in (t for d in node.decorator_list for t in _texts(d)):
                group, _, line = text.partition(": ")
                found[group][line].append(f"`{node.name}`")
    return found


def _texts(decorator: ast.expr) -> list[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.guarantee":
        return [ast.literal_eval(argument) for argument in decorator.args]
    return []


def page() -> str:
    parts = [HEAD]
    for group, lines in markers().items():
        three = group == "fault"
        head = "| fault | what happens | tests |\n|---|---|---|" if three else "| what | tests |\n|---|---|"
        rows = [
            f"| {line.replace(' → ', ' | ') if three else line} | {', '.join(tests)} |"
            for line, tests in sorted(lines.items())
        ]
        parts.append("\n".join([f"## {GROUPS[group]}", "", head, *rows, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
