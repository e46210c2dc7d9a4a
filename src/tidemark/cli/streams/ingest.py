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
from tidemark.contract.errors import TidemarkError, summary_of_error
from tidemark.contract.escaping import escape_control_characters

app = typer.Typer(add_completion=False)


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
    from tidemark.ingest.observers import COUNTED, BatchTotals
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target, streams=stream or ())
    totals = BatchTotals()
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
        columns = ("batches", *COUNTED)
        rows = [(o.name, *totals.of.get(o.name, dict.fromkeys(columns, 0)).values()) for o in outcomes]
        stdout().print(table_of(("stream", *columns), rows, title="Landed"))
        for name, error in failed.items():
            # Spark's own log has the traces of Spark's errors.
            text = str(error) if isinstance(error, TidemarkError) else summary_of_error(error)
            shown = escape_control_characters(masked_text(text))
            stderr().print(Text.assemble((f"{name} stopped:", "red"), " ", shown))
    if failed:
        raise typer.Exit(1)
