"""`tidemark check`: every fault of the configuration, the schemas, the rules and the columns at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json
from tidemark.config.reading.collisions import TOPICS
from tidemark.config.reading.faults import ConfigurationFaults, Fault, KeyPath
from tidemark.config.serverless import serverless_faults
from tidemark.config.settings import Settings
from tidemark.config.stream import Stream
from tidemark.contract.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer()


@app.callback(invoke_without_command=True)
def check(
    *,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not start Spark: rules and enrichment are not analysed.")
    ] = False,
    serverless: Annotated[
        bool, typer.Option("--serverless", help="Refuse what Databricks' serverless compute cannot run.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report every fault at once, each with its file, line, key and what to do. Exit code 2 if any."""
    try:
        settings = open_settings(config, target)
        faults = schema_faults(settings, quick=quick)
        if serverless:
            faults += serverless_faults(settings)
        if faults:
            raise ConfigurationFaults(faults)
    except ConfigurationFaults as e:
        if as_json:
            print_json({"ok": False, "faults": [asdict(fault) for fault in e.faults]})
            raise typer.Exit(e.exit_code) from None
        raise
    from tidemark.cli.check_tables import has_properties

    unseen = quick and any(s.rules or s.enrich for s in settings.streams.values())
    if as_json:
        print_json(
            {
                "ok": True,
                "faults": [],
                "expressions_checked": not unseen,
                "configuration": settings.redacted(),
            }
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    for name, stream in settings.streams.items():
        tables = ", ".join(f"{kind} {table}" for kind, table in settings.tables(name).items())
        console.print(f"[green]✓[/] {name}: {stream.kafka_topic} → {tables}")
    untried = quick and any(has_properties(s) for s in settings.streams.values())
    console.print(
        "No fault."
        + (" Rules and enrichment were not analysed." if unseen else "")
        + (" Table properties were not tried." if untried else "")
    )


def schema_faults(settings: Settings, *, quick: bool = False) -> list[Fault]:
    """Faults of what the configuration names: schemas, field options, rules, columns of the tables.

    Starts Spark if there are expressions to analyse or table properties to try, unless `quick`.
    """
    from tidemark.cli.check_tables import has_properties, landing_faults, table_faults
    from tidemark.transform import decode_plan

    streams = settings.streams
    asks = any(s.rules or s.enrich or has_properties(s) for s in streams.values())
    spark = _session() if asks and not quick else None
    faults: list[Fault] = []
    for name, stream in streams.items():
        at: KeyPath = (*TOPICS, name)
        faults += [settings.fault(*found) for found in landing_faults(stream, at, spark)]
        if stream.destination is None:
            continue
        # without Spark an expression's type is unknown, so these are left for the full check
        seen = stream if spark is not None else stream.model_copy(update={"enrich": {}})
        try:
            plan = decode_plan(seen, base_dir=settings.config_dir, spark=spark)
        except ConfigError as e:
            faults += [settings.fault(*_located(text, stream, at)) for text in _listed(e.message)]
            bare = stream.model_copy(update={"rules": (), "enrich": {}})
            try:
                plan = decode_plan(bare, base_dir=settings.config_dir)
            except ConfigError:
                continue  # the schema itself is at fault, so its columns are not known
        faults += [settings.fault(*found) for found in table_faults(stream, plan.table_schema, at, spark)]
    return faults


def _session() -> SparkSession:
    from tidemark.platform.session import get_session

    with Console(stderr=True).status("Starting Spark to analyse expressions and try table properties"):
        return get_session("tidemark check")


def _listed(message: str) -> Iterator[str]:
    """The faults of a message that lists them behind dashes, else the message itself."""
    first, *listed = message.split("\n- ")
    yield from listed or [first]


def _located(text: str, stream: Stream, at: KeyPath) -> tuple[KeyPath, str, str]:
    key, separator, rest = text.partition(": ")
    path: list[str | int] = list(key.split(" ")[0].split(".")) if separator else []
    problem = rest if separator else text
    if path[:1] == ["rules"]:
        name = ".".join(str(p) for p in path[1:])
        index = next((i for i, rule in enumerate(stream.rules) if rule.name == name), None)
        if index is not None:
            return (*at, "rules", index, "expr"), problem, ""
    if path[:1] == ["fields"]:
        field = next(
            (f for f in sorted(stream.fields, key=len, reverse=True) if key.startswith(f"fields.{f}")), None
        )
        if field is not None:
            return (*at, "fields", field, *key.removeprefix(f"fields.{field}").split(".")[1:]), problem, ""
    if path and path[0] in {f.alias for f in Stream.model_fields.values()}:
        problem, _, hint = problem.partition("; ")
        return (*at, *path), problem, hint
    return at, text, ""
