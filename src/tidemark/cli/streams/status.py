"""`tidemark status`: marks, end offsets, lag and last commit of every stream and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Streams, Target, open_settings
from tidemark.cli.output import print_json, stdout
from tidemark.cli.streams.status_rendering import rendering, watched
from tidemark.platform.files import LocalFiles

if TYPE_CHECKING:
    from tidemark.config.settings import Settings
    from tidemark.streams.status import Logs, StreamStatus

app = typer.Typer(add_completion=False)


@app.command()
def status(
    *,
    stream: Streams = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.5, help="Seconds between two reads.")] = 2.0,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Reads only, so it is safe during an ingest. Exit code 1 when a stream could not be read.

    With --watch a terminal shows one display that is updated in place; --json prints one line per read.
    """
    from tidemark.streams.status import status_of

    settings = open_settings(config, target, streams=stream or ())
    logs = _logs(settings)

    def read() -> list[StreamStatus]:
        return [s for name in stream or settings.streams for s in status_of(logs, settings, name)]

    if watch:
        watched(read, every=every, as_json=as_json)
        return
    found = read()
    if as_json:
        print_json([s.as_dict() for s in found])
    else:
        stdout().print(rendering(found))
    if any(s.problem and s.last_commit_version is None and s.topic_id is None for s in found):
        raise typer.Exit(1)


def _logs(settings: Settings) -> Logs:
    """The tables' logs: from their files, which is fast, or by Spark where only a catalog knows the folders."""
    from tidemark.platform.open_session import s3_files, session_for
    from tidemark.platform.session import on_databricks
    from tidemark.sink.log_files import logs_in
    from tidemark.streams.status import logs_of

    tables = [t for name in settings.streams for t in settings.tables(name).values()]
    readable = (t.path is not None and (t.is_local or t.path.startswith("s3a://")) for t in tables)
    if on_databricks() or not all(readable):
        return logs_of(session_for(settings))
    return logs_in(lambda folder: s3_files(settings) if folder.startswith("s3a://") else LocalFiles())
