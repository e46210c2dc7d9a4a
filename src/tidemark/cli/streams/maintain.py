"""`tidemark maintain`: compact, vacuum and clean up the tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Streams, Target, open_settings
from tidemark.cli.output import print_json, stdout

app = typer.Typer(add_completion=False)


@app.command()
def maintain(
    *,
    stream: Streams = None,
    open_partitions: Annotated[
        bool, typer.Option("--open-partitions", help="Compact today's partitions too.")
    ] = False,
    retention_hours: Annotated[
        int, typer.Option("--retention-hours", help="Hours that VACUUM keeps; 168 at least.")
    ] = 168,
    forget_letters_after: Annotated[
        int | None,
        typer.Option(
            "--forget-letters-after", min=1, help="Days after which closed dead letters are deleted."
        ),
    ] = None,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Rows and marks do not change. Without --stream also the metrics table and that of breakers."""
    from tidemark.operations.maintain import Maintenance, maintain_all
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target, streams=stream or ())
    how = Maintenance(
        today=datetime.now(UTC).date(),
        open_partitions=open_partitions,
        retention_hours=retention_hours,
        forget_letters_after=timedelta(days=forget_letters_after) if forget_letters_after else None,
    )
    done = []
    for step in maintain_all(session_for(settings), settings, stream or (), how):
        done.append(step.as_dict())
        if not as_json:
            stdout().print(f"{step.table}: {step.what} {step.files}, {step.detail}")
    if as_json:
        print_json(done)
