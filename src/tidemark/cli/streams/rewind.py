"""`tidemark rewind`: set a stream's marks back or forward."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json
from tidemark.contract.errors import UsageError

app = typer.Typer(help="Set a stream's marks back or forward.")


@app.callback(invoke_without_command=True)
def rewind(
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream whose marks move.")],
    to_offset: Annotated[
        list[str] | None, typer.Option("--to-offset", help="PARTITION=OFFSET, the next to read. Repeatable.")
    ] = None,
    to_time: Annotated[
        datetime | None, typer.Option("--to-time", help="The first records of this time (UTC) or later.")
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="All that the topic still has.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Its end: skip what was not read.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the marks, change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Stop the stream first. What is read again lands nothing twice; what is skipped is on record."""
    from tidemark.operations.rewind import RewindTarget, plan_rewind
    from tidemark.operations.rewind import rewind as move
    from tidemark.platform.open_session import session_for
    from tidemark.source.topics import KafkaAdmin
    from tidemark.streams.targets import targets_of

    time = to_time.replace(tzinfo=to_time.tzinfo or UTC) if to_time is not None else None
    to = RewindTarget(_offsets(to_offset), time, to_earliest, to_latest)
    settings = open_settings(config, target)
    settings.stream(stream)
    spark, admin = session_for(settings), KafkaAdmin(settings.kafka)
    console = Console(stderr=True, highlight=False)
    for one in targets_of(spark, settings, stream, run=uuid.uuid4().hex):
        planned = plan_rewind(spark, admin, one, to)
        for partition, (low, high) in planned.again.items():
            console.print(f"{one.name}: partition {partition}: {low} to {high - 1} are read again")
        for partition, (low, high) in planned.skipped.items():
            console.print(
                f"{one.name}: partition {partition}: {low} to {high - 1} are skipped", style="yellow"
            )
        if not (yes or dry_run):
            typer.confirm(f"Set the marks of {one.table} to {dict(planned.after)}?", abort=True, err=True)
        done = planned if dry_run else move(spark, admin, one, to)
        if as_json:
            print_json({**done.as_dict(), "dry_run": dry_run})
        else:
            told = "would be" if dry_run else f"set in version {done.version}:"
            Console(highlight=False).print(f"{one.table}: marks {told} {dict(done.after)}")


def _offsets(given: list[str] | None) -> dict[int, int] | None:
    if not given:
        return None
    offsets: dict[int, int] = {}
    for each in given:
        partition, _, offset = each.partition("=")
        if not (partition.isdigit() and offset.isdigit()):
            raise UsageError(f"--to-offset {each}: write PARTITION=OFFSET, such as 0=1500")
        if int(partition) in offsets:
            raise UsageError(f"--to-offset {each}: partition {partition} is named twice")
        offsets[int(partition)] = int(offset)
    return offsets
