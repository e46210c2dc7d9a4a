"""`tidemark status`: marks, end offsets, lag and last commit of every stream and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json

if TYPE_CHECKING:
    from tidemark.pipeline.status import StreamStatus

app = typer.Typer(help="Where each stream stands: marks, lag, last commit.")


@app.callback(invoke_without_command=True)
def status(
    *,
    stream: Annotated[list[str] | None, typer.Option("--stream", "-s", help="Only this stream.")] = None,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Reads only, so it is safe beside a running ingest. Exit code 1 when a stream could not be read."""
    from tidemark.pipeline.status import status_of
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target)
    for name in stream or []:
        settings.stream(name)
    spark = session_for(settings)
    found = [s for name in stream or list(settings.streams) for s in status_of(spark, settings, name)]
    if as_json:
        print_json([s.as_dict() for s in found])
    else:
        for one in found:
            _show(one)
    if any(s.problem and s.last_commit_version is None and s.topic_id is None for s in found):
        raise typer.Exit(1)


def _show(stream: StreamStatus) -> None:
    console = Console()
    console.print(f"[bold]{stream.stream}[/bold]  {stream.topic} → {stream.table}", highlight=False)
    if stream.last_commit_version is not None:
        console.print(
            f"last commit: version {stream.last_commit_version} ({stream.last_commit_kind}),"
            f" {stream.last_commit_time}, seq {stream.seq}; lag {stream.lag:,}",
            highlight=False,
        )
    if stream.problem:
        console.print(f"[yellow]{stream.problem}[/yellow]", highlight=False)
    if stream.partitions:
        table = Table("partition", "mark", "end offset", "lag")
        for p in stream.partitions:
            table.add_row(str(p.partition), f"{p.mark:,}", f"{p.end_offset:,}", f"{p.lag:,}")
        console.print(table)
