"""`tidemark fingerprints`: look at the memory of the fingerprint mode, and empty it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.config.settings import Settings
    from tidemark.streams.target import Target as Remembering

app = typer.Typer(help="Look at and reset the memory of the fingerprint mode.", no_args_is_help=True)


@app.command()
def show(*, config: Config = DEFAULT_CONFIG, target: Target = None, as_json: AsJson = False) -> None:
    """How many contents each stream remembers, and since when (UTC). Safe beside a running ingest."""
    from tidemark.operations.fingerprint_memory import memory_of
    from tidemark.platform.open_session import session_for

    settings = open_settings(config, target)
    spark = session_for(settings)
    memories = [memory_of(spark, one) for one in _remembering(spark, settings, list(settings.streams))]
    if as_json:
        print_json([_plain(asdict(memory)) for memory in memories])
        return
    table = Table("stream", "entries", "oldest", "newest", "checkpoint")
    for memory in memories:
        told = _plain(asdict(memory))
        table.add_row(
            memory.stream,
            f"{memory.entries:,}",
            told["oldest"] or "-",
            told["newest"] or "-",
            memory.checkpoint,
        )
    Console().print(table)


@app.command()
def reset(
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream that is to forget.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Forget all contents at the next start. Stop the stream first: a running one is fenced and stops.

    Records do not land twice, but a content that landed before the reset lands once more when it comes again.
    """
    from tidemark.operations.fingerprint_memory import forget, memory_of
    from tidemark.platform.open_session import session_for
    from tidemark.source.topics import KafkaAdmin

    settings = open_settings(config, target)
    settings.stream(stream)
    spark = session_for(settings)
    for one in _remembering(spark, settings, [stream]):
        memory = memory_of(spark, one)
        if not yes:
            Console(stderr=True).print(f"{one.table}: {memory.entries:,} entries", highlight=False)
            typer.confirm("Forget them?", abort=True, err=True)
        state = forget(spark, KafkaAdmin(settings.kafka), one)
        if as_json:
            print_json({"stream": one.name, "entries": memory.entries, "version": state.version})
        else:
            Console().print(f"{one.table}: {memory.entries:,} entries are forgotten at the next start")


def _remembering(spark: SparkSession, settings: Settings, names: list[str]) -> Iterator[Remembering]:
    from tidemark.contract.errors import UsageError
    from tidemark.streams.targets import targets_of

    found = [
        t for name in names for t in targets_of(spark, settings, name, run=uuid.uuid4().hex) if t.remembers
    ]
    if not found:
        raise UsageError(
            f"{', '.join(names)}: no fingerprints are kept", "only idempotency.mode: fingerprint keeps them"
        )
    yield from found


def _plain(told: dict[str, Any]) -> dict[str, Any]:
    return {
        k: v.isoformat(sep=" ", timespec="seconds") if hasattr(v, "isoformat") else v for k, v in told.items()
    }
