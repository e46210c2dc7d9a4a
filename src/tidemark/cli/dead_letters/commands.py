"""`tidemark dead-letters`: see, understand, fix, replay and put aside what was rejected.

Long because a command is one file: its eight sub-commands, each short, share the options of a dead letter.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidemark.cli.dead_letters.options import (
    Codes,
    DeadLetterFile,
    DeadLetterIds,
    Limit,
    Note,
    Since,
    Statuses,
    Stream,
    Until,
    Who,
    open_dead_letters,
    payload_edit_of,
    selection_of,
)
from tidemark.cli.dead_letters.rendering import in_words, rendering
from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, print_json
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.escaping import escape_control_characters

_WIDE = frozenset({"failure_stage", "failed_at", "attempts"})
_COORDINATES = frozenset({"stream_topic", "stream_partition", "stream_offset"})
_WIDTH = 120
"""Narrower, these columns leave room for the id and the reason; `show` and `--json` have them."""

app = typer.Typer(help="Dead letters: list, show, fix, replay, park, discard, export and import.")


@app.command()
def stream(
    *,
    stream: Stream,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Keep what is there, and end.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Keep the DLQ table up with the DLQ topic, until Ctrl-C."""
    dead_letters = open_dead_letters(config, target, stream)
    query = dead_letters.start(available_now=available_now)
    if query is None:
        topic = dead_letters.target.stream.dlq_topic
        Console(stderr=True).print(f"no topic {topic} yet: nothing was rejected", highlight=False)
        return
    try:
        query.awaitTermination()
    finally:
        query.stop()
    Console(stderr=True).print(f"{dead_letters.table.facts} is up to date", highlight=False)


@app.command("list")
def list_(
    *,
    stream: Stream,
    code: Codes = None,
    status: Statuses = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    summary: Annotated[bool, typer.Option("--summary", help="Count by code and status instead.")] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Dead letters without their payloads, the oldest first."""
    dead_letters = open_dead_letters(config, target, stream)
    table = dead_letters.table.facts
    selection = selection_of(code, status or list(DeadLetterStatus), since, until, None, None, limit)
    rows = [asdict(each) for each in (dead_letters.tally() if summary else dead_letters.listed(selection))]
    if as_json:
        print_json(rows)
        return
    console = Console(highlight=False)
    hidden = _COORDINATES if console.width >= _WIDTH else _COORDINATES | _WIDE
    columns = [name for name in rows[0] if name not in hidden] if rows else []
    pretty = Table(*columns, title=str(table))
    for column in pretty.columns[:2]:  # an id is there to be copied
        column.no_wrap, column.overflow = True, "fold"
    for row in rows:
        pretty.add_row(*[_cell(row, name) for name in columns])
    console.print(pretty if rows else f"no such dead letter in {table}")


@app.command()
def show(
    dead_letter: Annotated[str, typer.Argument(help="Its id, or topic:partition:offset.")],
    *,
    stream: Stream,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """One dead letter: its bytes as text or hex, the failure in words, and how to replay it."""
    from tidemark.dead_letters.files import as_line

    row = open_dead_letters(config, target, stream).show(dead_letter)
    if as_json:
        print_json(as_line(row))
    else:
        Console(highlight=False).print(rendering(row, stream))


@app.command()
def replay(
    *,
    stream: Stream,
    code: Codes = None,
    status: Statuses = None,
    since: Since = None,
    until: Until = None,
    dead_letter: DeadLetterIds = None,
    from_file: DeadLetterFile = None,
    limit: Limit = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen, change nothing.")
    ] = False,
    edit: Annotated[
        str | None, typer.Option("--edit", help="SQL expression for the value, over `payload` (its text).")
    ] = None,
    patch: Annotated[
        Path | None, typer.Option("--patch", help="File of a JSON merge patch for the value.")
    ] = None,
    republish: Annotated[
        bool, typer.Option("--republish", help="To the source topic, not to the table.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    by: Who,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Through the pipeline again, with today's schema and rules; what is right lands under its coordinates.

    Exit code 1 when a dead letter failed again.
    """
    selection = selection_of(code, status, since, until, dead_letter, from_file, limit)
    edited = payload_edit_of(edit, patch)
    dead_letters = open_dead_letters(config, target, stream)
    console = Console(stderr=True, highlight=False)
    dead_letters.all()
    if republish:
        topic = dead_letters.target.stream.kafka_topic
        console.print(f"every consumer group of {topic} will read these records again, not Tidemark alone")
        if not (yes or dry_run):
            typer.confirm(f"Publish to {topic}?", abort=True, err=True)
        count = dead_letters.republish(selection, edit=edited, dry_run=dry_run, by=by)
        print_json({"stream": stream, "published": count, "dry_run": dry_run})
        return
    with console.status("replaying") as shown:
        done = dead_letters.replay(
            selection,
            edit=edited,
            dry_run=dry_run,
            by=by,
            progress=lambda step: shown.update(f"replaying: {step}"),
        )
    print_json(done.as_dict()) if as_json else Console(highlight=False).print(in_words(done))
    if done.rejected or done.parked:
        raise typer.Exit(1)


@app.command()
def park(
    dead_letter: Annotated[list[str], typer.Argument(help="Ids, or topic:partition:offset.")],
    *,
    stream: Stream,
    note: Note = "",
    by: Who,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Put dead letters aside: they are replayed only when they are named."""
    count = open_dead_letters(config, target, stream).mark(
        dead_letter, DeadLetterStatus.PARKED, by=by, note=note or None
    )
    Console(stderr=True).print(f"{count} parked", highlight=False)


@app.command()
def discard(
    dead_letter: Annotated[list[str], typer.Argument(help="Ids, or topic:partition:offset.")],
    *,
    stream: Stream,
    note: Note = "",
    by: Who,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Decide that dead letters are not wanted. Their bytes stay in the DLQ table."""
    status = DeadLetterStatus.DISCARDED
    count = open_dead_letters(config, target, stream).mark(dead_letter, status, by=by, note=note or None)
    Console(stderr=True).print(f"{count} {status.value}", highlight=False)


@app.command()
def export(
    *,
    stream: Stream,
    code: Codes = None,
    status: Statuses = None,
    since: Since = None,
    until: Until = None,
    dead_letter: DeadLetterIds = None,
    limit: Limit = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; standard output if none.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Dead letters as JSON lines: a fixture that `tidemark decode` reads."""
    dead_letters = open_dead_letters(config, target, stream)
    selection = selection_of(code, status, since, until, dead_letter, None, limit)
    if out is None:
        dead_letters.export(selection, sys.stdout)
        return
    with out.open("w", encoding="utf-8") as file:
        count = dead_letters.export(selection, file)
    Console(stderr=True).print(f"dead letters in {out}: {count}", highlight=False)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that export wrote.", exists=True, dir_okay=False)],
    *,
    stream: Stream,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Dead letters of a file into the DLQ table; those that are there stay as they are."""
    count = open_dead_letters(config, target, stream).import_from(file)
    Console(stderr=True).print(f"dead letters read from {file}: {count}", highlight=False)


def _cell(row: dict[str, Any], name: str) -> Text:
    value = row[name]
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d %H:%M:%S}")
    if name == "failure_message" and value is not None:  # the code it begins with has a column of its own
        value = value.removeprefix(f"{row['failure_code']}: ")
    return Text("" if value is None else escape_control_characters(str(value)))
