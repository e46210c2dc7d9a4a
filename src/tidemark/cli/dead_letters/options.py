"""Options of the commands about dead letters, and the selection and payload edit that they describe."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tidemark.cli.options import open_settings
from tidemark.cli.output import stderr
from tidemark.contract.dead_letters import UNKNOWN_CODE, DeadLetterStatus
from tidemark.contract.errors import UsageError
from tidemark.contract.failure_codes import FailureCode

if TYPE_CHECKING:
    from tidemark.dead_letters.selection import PayloadEdit, Selection
    from tidemark.dead_letters.service import DeadLetters

Stream = Annotated[str, typer.Option("--stream", "-s", help="The stream of the dead letters.")]
Codes = Annotated[list[str] | None, typer.Option("--code", help="Only this failure code. Repeatable.")]
Statuses = Annotated[
    list[DeadLetterStatus] | None,
    typer.Option("--status", help="Only this status. Repeatable; by default new."),
]
Since = Annotated[datetime | None, typer.Option("--since", help="Failed at this time (UTC) or later.")]
Until = Annotated[datetime | None, typer.Option("--until", help="Failed before this time (UTC).")]
DeadLetterIds = Annotated[
    list[str] | None,
    typer.Option("--letter", "-l", help="This dead letter: its id, or topic:partition:offset."),
]
NamedDeadLetters = Annotated[list[str], typer.Argument(help="Ids, or topic:partition:offset.")]
DeadLetterFile = Annotated[Path | None, typer.Option("--letters", help="A file of dead letters, one a line.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="The largest number of them.")]
Note = Annotated[str, typer.Option("--note", help="The reason, for later readers.")]
By = Annotated[
    str, typer.Option("--by", envvar="TIDEMARK_USER", help="Your name.", default_factory=getpass.getuser)
]


def open_dead_letters(config: Path, target: str | None, stream: str) -> DeadLetters:
    from tidemark.dead_letters.service import DeadLetters
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target, streams=[stream])
    return DeadLetters.of(session_for(settings), settings, stream)


def selection_of(
    *,
    code: list[str] | None,
    status: list[DeadLetterStatus] | None,
    since: datetime | None,
    until: datetime | None,
    dead_letter: list[str] | None = None,
    from_file: Path | None = None,
    limit: int | None,
) -> Selection:
    from tidemark.dead_letters.selection import Selection, read_dead_letters

    _warn_of_unknown(code or ())
    named = tuple(dead_letter or ()) + (read_dead_letters(from_file) if from_file is not None else ())
    if from_file is not None and not named:
        raise UsageError(f"{from_file} names no dead letter")
    since, until = (m.replace(tzinfo=m.tzinfo or UTC) if m is not None else None for m in (since, until))
    return Selection(tuple(code or ()), since, until, named, tuple(status or ()), limit)


def _warn_of_unknown(codes: Iterable[str]) -> None:
    """No error: others write dead letters too, with codes of their own."""
    known = [UNKNOWN_CODE, *(each.value for each in FailureCode)]
    for code in codes:
        if code not in known:
            near = get_close_matches(code.upper(), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            stderr().print(Text(f"{code} is none of Tidemark's own failure codes{hint}", style="yellow"))


def payload_edit_of(expression: str | None, patch: Path | None) -> PayloadEdit | None:
    from tidemark.dead_letters.selection import PayloadEdit

    if expression is not None and patch is not None:
        raise UsageError("--edit and --patch both fix the value: give one of them")
    if patch is None:
        return PayloadEdit(expression=expression) if expression is not None else None
    try:
        return PayloadEdit(patch=json.loads(patch.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(f"{patch} is not a JSON merge patch: {error}") from error
