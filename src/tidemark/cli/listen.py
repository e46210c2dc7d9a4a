"""`tidemark listen`: an at-least-once consumer group that calls your code, or runs a Databricks job."""

from __future__ import annotations

from typing import Annotated

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, on_stop_signal, open_settings
from tidemark.cli.progress import Progress
from tidemark.listener.meter import watched
from tidemark.listener.run import listener_for
from tidemark.monitoring.metrics import Metrics

app = typer.Typer(add_completion=False)


@app.command()
def listen(
    *,
    handler: Annotated[
        str | None,
        typer.Option("--handler", help="`package.module:function`, instead of the configured one."),
    ] = None,
    until_idle: Annotated[
        float | None, typer.Option("--until-idle", min=0, help="End after this many seconds without a batch.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Runs until stopped (Ctrl-C or SIGTERM), or until a failure that needs a person (exit code 1)."""
    settings = open_settings(config, target)
    metrics = Metrics(settings.application_name)
    with Progress("listen", as_json=as_json) as progress:
        listener = listener_for(settings, handler=handler, on_progress=progress.show, metrics=metrics)
        progress.end_when_idle(until_idle, listener)
        on_stop_signal(listener.stop)
        with watched(settings, metrics, lambda: listener.heartbeat):
            listener.run()
