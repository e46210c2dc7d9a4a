"""`tidemark check`: every fault of the configuration, the schemas, the rules and the columns at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings
from tidemark.cli.output import print_json, stderr, stdout
from tidemark.config.reading.faults import ConfigurationFaults, Fault, Finding, KeyPath
from tidemark.config.reading.layering import TOPICS
from tidemark.config.serverless import serverless_faults
from tidemark.config.settings import Settings
from tidemark.config.stream import Stream
from tidemark.contract.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer(add_completion=False)


@app.command()
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

    streams = settings.streams
    unchecked = quick and any(s.rules or s.enrich for s in streams.values())
    if as_json:
        configuration = settings.redacted()
        result = {"ok": True, "faults": [], "expressions_checked": not unchecked}
        print_json({**result, "configuration": configuration})
        return
    for name, stream in streams.items():
        tables = ", ".join(f"{kind} {table}" for kind, table in settings.tables(name).items())
        stdout().print(f"[green]✓[/] {name}: {stream.kafka_topic} → {tables}")
    untried = quick and any(has_properties(s) for s in streams.values())
    stdout().print(
        "No fault."
        + (" Rules and enrichment were not analysed." if unchecked else "")
        + (" Table properties were not tried." if untried else "")
    )


def schema_faults(settings: Settings, *, quick: bool = False) -> list[Fault]:
    """Faults of schemas, field options, rules, and columns of the tables.

    Starts Spark where there are expressions to analyse or table properties to try, unless `quick`.
    """
    from tidemark.cli.check_tables import has_properties, landing_faults, table_faults
    from tidemark.transform import decode_plan

    streams = settings.streams
    needs_spark = any(s.rules or s.enrich or has_properties(s) for s in streams.values())
    spark = _session() if needs_spark and not quick else None
    faults: list[Fault] = []
    for name, stream in streams.items():
        at: KeyPath = (*TOPICS, name)
        faults += [settings.fault(*found) for found in landing_faults(stream, at, spark)]
        if stream.destination is None:
            continue
        # Without Spark the type of an expression is unknown: only the full check includes enrichment.
        checked = stream if spark is not None else stream.model_copy(update={"enrich": {}})
        try:
            plan = decode_plan(checked, base_dir=settings.config_dir, spark=spark)
        except ConfigError as e:
            faults += [settings.fault(*_located(text, stream, at)) for text in _listed(e.message)]
            bare = stream.model_copy(update={"rules": (), "enrich": {}})
            try:
                plan = decode_plan(bare, base_dir=settings.config_dir)
            except ConfigError:
                continue  # the schema itself is faulty, so its columns are unknown
        faults += [settings.fault(*found) for found in table_faults(stream, plan.table_schema, at, spark)]
    return faults


def _session() -> SparkSession:
    from tidemark.platform.session import get_session

    with stderr().status("Starting Spark to analyse expressions and try table properties"):
        return get_session("tidemark check")


def _listed(message: str) -> Iterator[str]:
    """The faults of a message that lists them after dashes, else the message itself."""
    first, *listed = message.split("\n- ")
    yield from listed or [first]


def _located(text: str, stream: Stream, at: KeyPath) -> Finding:
    """The key that a fault of the schema names, such as `rules.positive: …` or `fields.id.column: …`."""
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
