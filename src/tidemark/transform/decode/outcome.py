"""What the strict lane of any format says of one payload: a row, or its faults, of which it keeps a few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from tidemark.contract.failure_codes import FailureCode

KEPT_FAULTS = 20
"""Faults of one record that its failure lists; the others are counted."""
FOUND_LENGTH = 120
"""Characters of a found value that a dead letter shows."""
_PATH_LENGTH = 200
"""Characters of a fault's path that it shows: a map's key and an unknown field's name are the producer's."""
LISTED_FAULTS = 5
"""Faults that a failure's message lists."""

FAILURE = pa.struct(
    [
        *[(name, pa.string()) for name in ("code", "stage", "message", "format")],
        (
            "faults",
            pa.list_(
                pa.struct([(n, pa.string()) for n in ("field", "expected", "found", "rule", "message")])
            ),
        ),
    ]
)
"""`FAILURE_DDL` as Arrow has it."""
_RANK = {code: at for at, code in enumerate(FailureCode)}
"""Of several faults the code is the first in the enum's order: what is wrong with the whole payload, then
with a value, then what is missing or too much."""

Path = str | tuple["Path", str | int] | None
"""Where a fault is: the name of a field at the top, or a path and what follows it: `.name` of a member, the
number of an element, `[key]` of a map's value. None is the whole payload. A tuple, so that the text is made
of faults that are kept alone."""


class Fault(NamedTuple):
    code: FailureCode
    field: str | None
    expected: str
    found: str | None = None


class Faults:
    """The first faults of a record, and the number of all: a record's size does not bound them."""

    __slots__ = ("code", "kept", "more")

    def __init__(self) -> None:
        self.kept: list[Fault] = []
        self.more = 0
        self.code: FailureCode | None = None

    def add(
        self, code: FailureCode, path: Path, expected: str, found: Callable[[], str] | str | None = None
    ) -> None:
        """Takes a fault. What makes the found value's text is called only where it is kept."""
        if self.code is None or _RANK[code] < _RANK[self.code]:
            self.code = code
        if len(self.kept) >= KEPT_FAULTS:
            self.more += 1
            return
        shown = found() if callable(found) else found
        self.kept.append(Fault(code, _written(path), expected, None if shown is None else cut(shown)))


class Outcome(NamedTuple):
    """A decoded payload: `row` by the table's column names, or `code` and `faults`."""

    row: dict[str, Any] | None
    code: FailureCode | None = None
    faults: list[Fault] = []  # noqa: RUF012  # never changed
    more_faults: int = 0
    unknown: int = 0
    extra: dict[str, str | None] | None = None


def outcome_of(
    row: dict[str, Any], faults: Faults, unknown: int = 0, extra: dict[str, str | None] | None = None
) -> Outcome:
    """The row, unless there are faults."""
    if faults.code is None:
        return Outcome(row, unknown=unknown, extra=extra)
    return Outcome(None, faults.code, faults.kept, faults.more, unknown, extra)


def rejected(code: FailureCode, expected: str, found: str | None = None) -> Outcome:
    """A payload that is wrong as a whole."""
    shown = None if found is None else cut(found)
    return Outcome(None, code, [Fault(code, None, expected, shown)])


def cut(text: str, length: int = FOUND_LENGTH) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _written(path: Path) -> str | None:
    if path is None:
        return path
    parts: list[str] = []
    while isinstance(path, tuple):
        path, last = path
        parts.append(f"[{last}]" if isinstance(last, int) else last)
    return cut((path or "") + "".join(reversed(parts)), _PATH_LENGTH)


def failure_of(outcome: Outcome, format_: str | None) -> dict[str, Any]:
    """`FAILURE_DDL` of a rejected payload."""
    messages = [_message(fault) for fault in outcome.faults]
    more = len(messages) + outcome.more_faults - LISTED_FAULTS
    return {
        "code": outcome.code,
        "stage": "decode",
        "message": "; ".join(messages[:LISTED_FAULTS]) + (f"; and {more} more" if more > 0 else ""),
        "format": format_,
        "faults": [
            {"field": f.field, "expected": f.expected, "found": f.found, "rule": None, "message": message}
            for f, message in zip(outcome.faults, messages, strict=True)
        ],
    }


def _message(fault: Fault) -> str:
    where = "" if fault.field is None else f"field {fault.field}: "
    found = "" if fault.found is None else f", found {fault.found}"
    return f"{fault.code}: {where}expected {fault.expected}{found}"
