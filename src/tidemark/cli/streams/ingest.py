"""`tidemark ingest`: land the configured streams."""

from __future__ import annotations

import signal
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json
from tidemark.cli.streams.ingest_progress import IngestProgress
from tidemark.config.redaction import masked_text
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import TidemarkError, summary_of_error
from tidemark.contract.escaping import escape_control_characters
from tidemark.contract.events import Event, StreamObserver

app = typer.Typer(help="Land the streams: each record once, in its table or the dead letter queue.")


@app.callback(invoke_without_command=True)
def ingest(
    *,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", "-s", help="Only this stream; repeatable. All by default.")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Read what is there, then end, instead of running on.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Runs until stopped (Ctrl-C or SIGTERM). Exit code 1 when a stream stopped by a failure."""
    from tidemark.ingest.application import Ingest
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target)
    totals = _Totals()
    for name in stream or []:
        settings.stream(name)
    spark = session_for(settings)
    progress = IngestProgress(shown=available_now and not as_json)
    with progress:
        running = Ingest(
            spark, settings, stream or (), available_now=available_now, observers=[totals, progress]
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: running.stop())
        outcomes = running.run()

    failed = [o for o in outcomes if o.error is not None]
    if as_json:
        print_json({"streams": totals.of, "failed": {o.name: str(o.error) for o in failed}})
    else:
        _show(totals.of, [o.name for o in outcomes])
        for outcome in failed:
            # Of Spark's errors its own log has the trace.
            error = outcome.error
            text = (
                str(error) if isinstance(error, TidemarkError) or error is None else summary_of_error(error)
            )
            told = escape_control_characters(masked_text(text))
            line = Text.assemble((f"{outcome.name} stopped:", "red"), " ", told)
            Console(stderr=True, highlight=False).print(line)
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


_COLUMNS = ("batches", "read", "accepted", "rejected", "skipped", "duplicate")


def _show(totals: dict[str, dict[str, int]], names: list[str]) -> None:
    table = Table("stream", *_COLUMNS, title="Landed")
    for name in names:
        numbers = totals.get(name, dict.fromkeys(_COLUMNS, 0))
        table.add_row(name, *[f"{numbers[c]:,}" for c in _COLUMNS])
    Console().print(table)
