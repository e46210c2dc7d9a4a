"""Each kind of event is logged at the level that `reliability-guarantees.md` (Logging) gives it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tidemark"
LEVELS = ("debug", "info", "warning", "error", "exception")


def logged() -> dict[str, set[str]]:
    """Event → the levels it is logged at, over the whole code."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "log"
            ):
                event = node.args[0]
                if isinstance(event, ast.Constant):
                    found[str(event.value)].add(node.func.attr)
    return found


FOUND = logged()


@pytest.mark.parametrize(
    ("reported", "event", "level"),
    [
        ("INFO: successful processing", "batch landed", "info"),
        ("INFO: successful processing", "dead letters kept", "info"),
        ("INFO: DLQ routing", "dead letters published", "info"),
        ("INFO: successful processing", "dead letters replayed", "info"),
        ("INFO: successful processing", "completed", "info"),
        ("INFO: successful processing", "submitted", "info"),
        ("INFO: a write of a person", "console write", "info"),
        ("WARN: retriable failures", "retrying", "warning"),
        ("WARN: retriable failures", "starting again from the ledger", "warning"),
        ("WARN: retriable failures", "group offsets not committed", "warning"),
        ("WARN: retriable failures", "commit refused", "warning"),
        ("WARN: retriable failures", "not published yet, the sweeper will", "warning"),
        ("WARN: circuit breaker state changes", "breaker", "warning"),
        ("WARN: telemetry that fails", "metrics not written; the stream goes on", "warning"),
        ("ERROR: non-retriable failures", "stream stopped", "error"),
        ("ERROR: non-retriable failures", "records lost to retention", "error"),
        ("ERROR: non-retriable failures", "request given up", "error"),
        ("ERROR: non-retriable failures", "dead letters not written", "error"),
        ("DEBUG: message details", "record rejected", "debug"),
        ("DEBUG: idempotency checks", "idempotency", "debug"),
    ],
)
def test_an_event_has_the_level_of_the_source_document(reported: str, event: str, level: str) -> None:
    assert FOUND.get(event) == {level}, reported


def test_an_event_has_one_level_wherever_it_is_logged() -> None:
    assert {event: levels for event, levels in FOUND.items() if len(levels) > 1} == {}
