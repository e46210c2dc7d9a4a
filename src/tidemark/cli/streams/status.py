"""`tidemark status`: marks, end offsets, lag and last commit of every stream and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json
from tidemark.cli.streams.status_rendering import rendering, watched
from tidemark.platform.files import LocalFiles

if TYPE_CHECKING:
    from tidemark.config.settings import Settings
    from tidemark.streams.status import Logs, StreamStatus

app = typer.Typer(help="Where each stream stands: marks, lag, last commit.")


@app.callback(invoke_without_command=True)
def status(
    *,
    stream: Annotated[list[str] | None, typer.Option("--stream", "-s", help="Only this stream.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two looks.")] = 2.0,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Reads only, so it is safe beside a running ingest. Exit code 1 when a stream could not be read.

    With --watch a terminal shows one picture that is kept up to date; --json prints one line a look.
    """
    from tidemark.streams.status import status_of

    settings = open_settings(config, target)
    for name in stream or []:
        settings.stream(name)
    logs = _logs(settings)

    def look() -> list[StreamStatus]:
        return [s for name in stream or list(settings.streams) for s in status_of(logs, settings, name)]

    if watch:
        watched(look, every=every, as_json=as_json)
        return
    found = look()
    if as_json:
        print_json([s.as_dict() for s in found])
    else:
        Console(highlight=False).print(rendering(found), soft_wrap=True)
    if any(s.problem and s.last_commit_version is None and s.topic_id is None for s in found):
        raise typer.Exit(1)


def _logs(settings: Settings) -> Logs:
    """The tables' logs: from their files, in a moment, or by Spark where a catalog knows where they are."""
    from tidemark.platform.open_session import s3_files, session_for
    from tidemark.platform.session import on_databricks
    from tidemark.sink.log_files import logs_in
    from tidemark.streams.status import logs_of

    tables = [t for name in settings.streams for t in settings.tables(name).values()]
    if on_databricks() or any(
        t.path is None or not (t.is_local or t.path.startswith("s3a://")) for t in tables
    ):
        return logs_of(session_for(settings))
    return logs_in(lambda folder: s3_files(settings) if folder.startswith("s3a://") else LocalFiles())
