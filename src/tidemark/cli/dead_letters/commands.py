"""`tidemark dead-letters`: show, fix, replay and put aside rejected records.

One file for the eight sub-commands, each short, which share the options of a dead letter.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tidemark.cli.dead_letters.options import (
    By,
    Codes,
    DeadLetterFile,
    DeadLetterIds,
    Limit,
    NamedDeadLetters,
    Note,
    Since,
    Statuses,
    Stream,
    Until,
    open_dead_letters,
    payload_edit_of,
    selection_of,
)
from tidemark.cli.dead_letters.rendering import in_words, rendering
from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, Yes
from tidemark.cli.output import cell_of, print_json, stderr, stdout, table_of
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import UsageError

_WIDE = frozenset({"failure_stage", "failed_at", "attempts"})
_COORDINATES = frozenset({"stream_topic", "stream_partition", "stream_offset"})
_WIDTH = 120
"""A narrower terminal has no room for the wide columns; `show` and `--json` have them."""

app = typer.Typer(add_completion=False)


@app.command()
def stream(
    *,
    stream: Stream,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Read the available dead letters, then end.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Copy the DLQ topic into the DLQ table, until Ctrl-C."""
    dead_letters = open_dead_letters(config, target, stream)
    query = dead_letters.start(available_now=available_now)
    if query is None:
        topic = dead_letters.target.stream.dlq_topic
        stderr().print(f"no topic {topic} yet: nothing was rejected")
        return
    try:
        query.awaitTermination()
    finally:
        query.stop()
    stderr().print(f"{dead_letters.table.facts} is up to date")


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
    statuses = status or list(DeadLetterStatus)
    most = None if summary else limit
    selection = selection_of(code=code, status=statuses, since=since, until=until, limit=most)
    dead_letters = open_dead_letters(config, target, stream)
    table = dead_letters.table.facts
    found = dead_letters.tally(selection) if summary else dead_letters.listed(selection)
    rows = [asdict(each) for each in found]
    if as_json:
        print_json(rows)
        return
    console = stdout()
    hidden = _COORDINATES if console.width >= _WIDTH else _COORDINATES | _WIDE
    columns = [name for name in rows[0] if name not in hidden] if rows else []
    pretty = table_of(columns, [[_cell(row, name) for name in columns] for row in rows], title=str(table))
    for column in pretty.columns[:2]:  # an id must be complete to be copied
        column.no_wrap, column.overflow = True, "fold"
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
        bool, typer.Option("--dry-run", help="Report what would happen, change nothing.")
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
    yes: Yes = False,
    by: By,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters through the pipeline again, with today's schema and rules; valid records land
    under their own coordinates.

    Exit code 1 when a dead letter failed again.
    """
    selection = selection_of(
        code=code,
        status=status,
        since=since,
        until=until,
        dead_letter=dead_letter,
        from_file=from_file,
        limit=limit,
    )
    edited = payload_edit_of(edit, patch)
    dead_letters = open_dead_letters(config, target, stream)
    dead_letters.all()
    if republish:
        topic = dead_letters.target.stream.kafka_topic
        stderr().print(f"every consumer group of {topic} will read these records again, not Tidemark alone")
        if not (yes or dry_run):
            typer.confirm(f"Publish to {topic}?", abort=True, err=True)
        count = dead_letters.republish(selection, edit=edited, dry_run=dry_run, by=by)
        print_json({"stream": stream, "published": count, "dry_run": dry_run})
        return
    with stderr().status("replaying") as shown:
        done = dead_letters.replay(
            selection,
            edit=edited,
            dry_run=dry_run,
            by=by,
            progress=lambda step: shown.update(f"replaying: {step}"),
        )
    print_json(done.as_dict()) if as_json else stdout().print(in_words(done))
    if done.rejected or done.parked:
        raise typer.Exit(1)


@app.command()
def park(
    dead_letter: NamedDeadLetters,
    *,
    stream: Stream,
    note: Note = "",
    by: By,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Put dead letters aside: a replay takes them only by name."""
    dead_letters = open_dead_letters(config, target, stream)
    count = dead_letters.mark(dead_letter, DeadLetterStatus.PARKED, by=by, note=note or None)
    stderr().print(f"{count} parked")


@app.command()
def discard(
    dead_letter: NamedDeadLetters,
    *,
    stream: Stream,
    note: Note = "",
    by: By,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Mark dead letters as not wanted. Their bytes stay in the DLQ table."""
    dead_letters = open_dead_letters(config, target, stream)
    count = dead_letters.mark(dead_letter, DeadLetterStatus.DISCARDED, by=by, note=note or None)
    stderr().print(f"{count} discarded")


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
        Path | None, typer.Option("--out", "-o", help="File to write; by default standard output.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Dead letters as JSON lines: a fixture that `tidemark decode` reads."""
    selection = selection_of(
        code=code, status=status, since=since, until=until, dead_letter=dead_letter, limit=limit
    )
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise UsageError(f"cannot write {out}", "name a file in a folder that exists")
    dead_letters = open_dead_letters(config, target, stream)
    if out is None:
        dead_letters.export(selection, sys.stdout)
        return
    dead_letters.all()
    with out.open("w", encoding="utf-8") as file:
        count = dead_letters.export(selection, file)
    stderr().print(f"dead letters in {out}: {count}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file that export wrote.", exists=True, dir_okay=False)],
    *,
    stream: Stream,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
) -> None:
    """Add the dead letters of a file to the DLQ table; existing ones do not change."""
    count = open_dead_letters(config, target, stream).import_from(file)
    stderr().print(f"dead letters read from {file}: {count}")


def _cell(row: dict[str, Any], name: str) -> Text:
    value = row[name]
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d %H:%M:%S}")
    if name == "failure_message" and value is not None:  # the code has a column of its own
        value = value.removeprefix(f"{row['failure_code']}: ")
    return cell_of(str(value) if isinstance(value, int) else value)
