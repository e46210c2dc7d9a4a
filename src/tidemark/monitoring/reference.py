"""Writes the table of docs/metrics.md: `python -m tidemark.monitoring.reference`. A test compares the two."""

from __future__ import annotations

from pathlib import Path

from tidemark.monitoring.metric_catalogue import CATALOGUE

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"


def table() -> str:
    lines = ["| metric | kind | labels | what it says | in the source documents |", "|---|---|---|---|---|"]
    for metric in CATALOGUE:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} | {metric.source} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END, 1)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
