"""How commands print: data on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidemark.contract.escaping import escape_control_characters


def stdout() -> Console:
    return Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON value on standard output, and nothing else there."""
    typer.echo(json.dumps(value, default=str, ensure_ascii=False, indent=2))


def table_of(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> Table:
    """A table of plain cells, in which no text acts on the terminal. Whole numbers get separators."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*[cell_of(value) for value in row])
    return table


def cell_of(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text("" if value is None else escape_control_characters(str(value)))
