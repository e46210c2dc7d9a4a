"""`tidemark fingerprints`: show the memory of the fingerprint mode, and empty it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, Yes, open_settings
from tidemark.cli.output import print_json, stderr, stdout, table_of
from tidemark.cli.streams.targets import open_targets
from tidemark.contract.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.config.settings import Settings
    from tidemark.streams.target import Target as StreamTarget

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.command()
def show(*, config: Config = DEFAULT_CONFIG, target: Target = None, as_json: AsJson = False) -> None:
    """How many contents each stream remembers, and since when (UTC). Safe during an ingest."""
    from tidemark.operations.fingerprint_memory import memory_of

    settings = open_settings(config, target)
    spark, targets = _remembering(settings, *settings.streams)
    memories = [_plain(asdict(memory_of(spark, one))) for one in targets]
    if as_json:
        print_json(memories)
        return
    columns = ("stream", "entries", "oldest", "newest", "checkpoint")
    stdout().print(table_of(columns, [["-" if m[c] is None else m[c] for c in columns] for m in memories]))


@app.command()
def reset(
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream whose memory is emptied.")],
    yes: Yes = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Forget all contents at the next start. Stop the stream first: a running one is fenced and stops.

    Records do not land twice, but a content that landed before the reset lands once more when it comes again.
    """
    from tidemark.operations.fingerprint_memory import forget, memory_of
    from tidemark.source.topics import KafkaAdmin

    settings = open_settings(config, target, streams=[stream])
    spark, targets = _remembering(settings, stream)
    for one in targets:
        entries = memory_of(spark, one).entries
        if not yes:
            stderr().print(f"{one.table}: {entries:,} entries")
            typer.confirm("Forget them?", abort=True, err=True)
        state = forget(spark, KafkaAdmin(settings.kafka), one)
        if as_json:
            print_json({"stream": one.name, "entries": entries, "version": state.version})
        else:
            stdout().print(f"{one.table}: {entries:,} entries are forgotten at the next start")


def _remembering(settings: Settings, *names: str) -> tuple[SparkSession, list[StreamTarget]]:
    spark, targets = open_targets(settings, *names)
    found = [target for target in targets if target.remembers]
    if not found:
        hint = "only idempotency.mode: fingerprint keeps them"
        raise UsageError(f"{', '.join(names)}: no fingerprints are kept", hint)
    return spark, found


def _plain(memory: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.isoformat(sep=" ", timespec="seconds") if hasattr(value, "isoformat") else value
        for key, value in memory.items()
    }
