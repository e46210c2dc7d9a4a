"""`tidemark demo`: a broker, records, two crashes, and the check that nothing is lost."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    *,
    records: Annotated[
        int, typer.Option("--records", "-n", min=1000, max=2_000_000, help="How many records to produce.")
    ] = 100_000,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="FOLDER", help="Work in this new folder, and keep it."),
    ] = None,
    sample_set: Annotated[
        str | None,
        typer.Option(
            "--set",
            metavar="NAME",
            help="Land a sample set of fixtures/sets: clickstream, trades or telemetry.",
        ),
    ] = None,
) -> None:
    """A real broker, JSON, CSV and Avro records, a writer killed with SIGKILL, and the resulting tables.

    Needs no configuration and leaves nothing behind. Exit code 1 if a record is lost or duplicated.
    """
    from tidemark.dev.demo.demo import run_demo
    from tidemark.dev.demo.report import demo_console

    # As after Ctrl-C, the started processes end and the folder is deleted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    audit_result = run_demo(demo_console(), records=records, keep=keep, sample_set=sample_set)
    if not audit_result.sound:
        raise typer.Exit(1)
