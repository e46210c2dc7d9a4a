"""`tidemark maintain`: compact, vacuum and tidy the tables."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json

app = typer.Typer(help="Compact, vacuum and tidy the tables; safe while streams write.")


@app.callback(invoke_without_command=True)
def maintain(
    *,
    stream: Annotated[list[str] | None, typer.Option("--stream", "-s", help="Only this stream.")] = None,
    open_partitions: Annotated[
        bool, typer.Option("--open-partitions", help="Compact today's partitions too.")
    ] = False,
    retention_hours: Annotated[
        int, typer.Option("--retention-hours", help="Hours that VACUUM keeps; 168 at least.")
    ] = 168,
    forget_letters_after: Annotated[
        int | None,
        typer.Option("--forget-letters-after", min=1, help="Days after which closed dead letters go."),
    ] = None,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Rows and marks stay as they are."""
    from tidemark.operations.maintain import Maintenance
    from tidemark.operations.maintain import maintain as keep_up
    from tidemark.platform.open_session import session_for
    from tidemark.streams.targets import targets_of

    settings = open_settings(config, target)
    names = list(stream or settings.streams)
    for name in names:
        settings.stream(name)
    how = Maintenance(
        today=datetime.now(UTC).date(),
        open_partitions=open_partitions,
        retention_hours=retention_hours,
        forget_letters_after=timedelta(days=forget_letters_after) if forget_letters_after else None,
    )
    spark = session_for(settings)
    console = Console(highlight=False)
    done = []
    for name in names:
        for one in targets_of(spark, settings, name, run=uuid.uuid4().hex):
            for piece in keep_up(spark, one, how):
                done.append(piece.as_dict())
                if not as_json:
                    console.print(
                        f"{piece.table}: {piece.what} {piece.files}, {piece.detail}", soft_wrap=True
                    )
    if as_json:
        print_json(done)
