"""`tidemark rewind`: set a stream's marks back or forward."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tidemark.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    Config,
    Target,
    Yes,
    by_partition,
    open_settings,
)
from tidemark.cli.output import print_json, stderr, stdout
from tidemark.cli.streams.targets import open_targets

app = typer.Typer(add_completion=False)


@app.command()
def rewind(
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream whose marks move.")],
    to_offset: Annotated[
        list[str] | None, typer.Option("--to-offset", help="PARTITION=OFFSET, the next to read. Repeatable.")
    ] = None,
    to_time: Annotated[
        datetime | None, typer.Option("--to-time", help="The first records of this time (UTC) or later.")
    ] = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="The oldest records that the topic still has.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="The topic's end: skip the unread records.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the marks, change nothing.")] = False,
    yes: Yes = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Stop the stream first. Records that are read again do not land twice; skipped ones are recorded."""
    from tidemark.operations.rewind import RewindTarget, plan_rewind
    from tidemark.operations.rewind import rewind as move
    from tidemark.source.topics import KafkaAdmin

    time = to_time.replace(tzinfo=to_time.tzinfo or UTC) if to_time is not None else None
    usage = "PARTITION=OFFSET, such as 0=1500"
    offsets = by_partition("--to-offset", to_offset or [], r"(\d+)=(\d+)", usage)
    to = RewindTarget({p: offset for p, (offset,) in offsets.items()} or None, time, to_earliest, to_latest)
    settings = open_settings(config, target, streams=[stream])
    admin = KafkaAdmin(settings.kafka)
    spark, targets = open_targets(settings, stream)
    for one in targets:
        planned = plan_rewind(spark, admin, one, to)
        for ranges, what, style in (
            (planned.again, "read again", ""),
            (planned.skipped, "skipped", "yellow"),
        ):
            for partition, (low, high) in ranges.items():
                line = f"{one.name}: partition {partition}: {low} to {high - 1} are {what}"
                stderr().print(line, style=style)
        if not (yes or dry_run):
            typer.confirm(f"Set the marks of {one.table} to {dict(planned.after)}?", abort=True, err=True)
        done = planned if dry_run else move(spark, admin, one, to)
        if as_json:
            print_json({**done.as_dict(), "dry_run": dry_run})
        else:
            outcome = "would be" if dry_run else f"set in version {done.version}:"
            stdout().print(f"{one.table}: marks {outcome} {dict(done.after)}")
