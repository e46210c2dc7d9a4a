"""`tidemark listen`: an at-least-once consumer group that calls your code, or runs a Databricks job."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.progress import Progress
from tidemark.config.load import load_settings
from tidemark.listener.run import listener_for

app = typer.Typer(help="Listen to topics and hand their records over, at least once.")


@app.callback(invoke_without_command=True)
def listen(
    *,
    handler: Annotated[
        str | None,
        typer.Option("--handler", help="`package.module:function`, instead of the configured one."),
    ] = None,
    until_idle: Annotated[
        float | None, typer.Option("--until-idle", min=0, help="End after this many seconds without a batch.")
    ] = None,
    config: Annotated[
        Path, typer.Option("--config", envvar="TIDEMARK_CONFIG", help="Configuration file.")
    ] = Path("conf/tidemark.yml"),
    target: Annotated[
        str | None, typer.Option("--target", envvar="TIDEMARK_TARGET", help="Its overrides, e.g. prod.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Progress as JSON lines.")] = False,
) -> None:
    """Runs until stopped (Ctrl-C or SIGTERM), or until a failure that a person must look at (exit code 1)."""
    settings = load_settings(config, target=target)
    with Progress("listen", as_json=as_json) as progress:
        listener = listener_for(settings, handler=handler, on_progress=progress.show)
        progress.end_when_idle(until_idle, listener.stop)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: listener.stop())
        listener.run()
