"""`tidemark ingest`: land the configured streams."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from tidemark.cli.options import (
    DEFAULT_CONFIG,
    AsJson,
    Config,
    Streams,
    Target,
    on_stop_signal,
    open_settings,
)
from tidemark.cli.output import print_json, stderr, stdout, table_of
from tidemark.cli.streams.ingest_progress import IngestProgress
from tidemark.config.redaction import masked_text
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import TidemarkError, summary_of_error
from tidemark.contract.escaping import escape_control_characters
from tidemark.contract.events import Event, StreamObserver

app = typer.Typer(add_completion=False)

_COLUMNS = ("batches", "read", "accepted", "rejected", "skipped", "duplicate")


@app.command()
def ingest(
    *,
    stream: Streams = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Read the available records, then end.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Runs until stopped (Ctrl-C or SIGTERM). Exit code 1 when a failure stopped a stream."""
    from tidemark.ingest.application import Ingest
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target, streams=stream or ())
    totals = _Totals()
    spark = session_for(settings)
    with IngestProgress(shown=available_now and not as_json) as progress:
        running = Ingest(
            spark, settings, stream or (), available_now=available_now, observers=[totals, progress]
        )
        on_stop_signal(running.stop)
        outcomes = running.run()

    failed = {outcome.name: outcome.error for outcome in outcomes if outcome.error is not None}
    if as_json:
        print_json({"streams": totals.of, "failed": {name: str(error) for name, error in failed.items()}})
    else:
        nothing = dict.fromkeys(_COLUMNS, 0)
        rows = [(o.name, *totals.of.get(o.name, nothing).values()) for o in outcomes]
        stdout().print(table_of(("stream", *_COLUMNS), rows, title="Landed"))
        for name, error in failed.items():
            # Spark's own log has the traces of Spark's errors.
            text = str(error) if isinstance(error, TidemarkError) else summary_of_error(error)
            shown = escape_control_characters(masked_text(text))
            stderr().print(Text.assemble((f"{name} stopped:", "red"), " ", shown))
    if failed:
        raise typer.Exit(1)


class _Totals(StreamObserver):
    """Adds up the batches of each stream."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, int]] = {}

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport):
            of_stream = self.of.setdefault(event.stream, dict.fromkeys(_COLUMNS, 0))
            for name in _COLUMNS:
                of_stream[name] += 1 if name == "batches" else int(getattr(event, name))
