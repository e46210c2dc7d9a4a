"""`tidemark check`: every fault of the configuration, the schemas, the rules and the columns at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, open_settings, print_json
from tidemark.config.collisions import TOPICS
from tidemark.config.faults import ConfigurationFaults, Fault, KeyPath
from tidemark.config.settings import Settings
from tidemark.config.stream import Stream
from tidemark.contract.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.transform.plan import DecodePlan

app = typer.Typer()


@app.callback(invoke_without_command=True)
def check(
    *,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not start Spark: rules and enrichment are not analysed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report every fault at once, each with its file, line, key and what to do. Exit code 2 if any."""
    try:
        settings = open_settings(config, target)
        faults = schema_faults(settings, quick=quick)
        if faults:
            raise ConfigurationFaults(faults)
    except ConfigurationFaults as e:
        if as_json:
            print_json({"ok": False, "faults": [asdict(fault) for fault in e.faults]})
            raise typer.Exit(e.exit_code) from None
        raise
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
    console.print("No fault." + (" Rules and enrichment were not analysed." if unseen else ""))


def schema_faults(settings: Settings, *, quick: bool = False) -> list[Fault]:
    """Faults of what the configuration names: schemas, field options, rules, columns of the tables.

    Starts Spark if there are expressions to analyse, unless `quick`.
    """
    from tidemark.transform import decode_plan

    decoded = {name: s for name, s in settings.streams.items() if s.destination is not None}
    spark = _session() if not quick and any(s.rules or s.enrich for s in decoded.values()) else None
    faults: list[Fault] = []
    for name, stream in decoded.items():
        at: KeyPath = (*TOPICS, name)
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
        faults += [settings.fault(*found) for found in _columns(stream, plan, at)]
    return faults


def _session() -> SparkSession:
    from tidemark.platform.session import get_session

    with Console(stderr=True).status("Starting Spark to analyse rules and enrichment"):
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


def _columns(stream: Stream, plan: DecodePlan, at: KeyPath) -> Iterator[tuple[KeyPath, str, str]]:
    """Columns that the configuration names and the table would not have, or cannot be partitioned by."""
    from tidemark.sink.partitioning import BY_DATE, MOMENT, moments_among

    names = [*plan.table_schema.fieldNames(), *stream.enrich]
    known = {name.lower() for name in names}
    destination = stream.destination
    wanted: list[tuple[KeyPath, tuple[str, ...]]] = [
        (("destination", "partition-columns"), destination.partition_columns if destination else ()),
        (("destination", "cluster-by"), destination.cluster_by if destination else ()),
        (("idempotency", "merge-keys"), stream.idempotency.merge_keys),
        (("idempotency", "order-by"), (stream.idempotency.order_by,) if stream.idempotency.order_by else ()),
    ]
    for key, columns in wanted:
        for column in columns:
            if column.lower() not in known:
                yield (*at, *key), f"the table has no column {column}", f"it has {', '.join(names)}"
    for column in moments_among(destination.partition_columns if destination else (), plan.table_schema):
        yield (*at, "destination", "partition-columns"), f"{column} {MOMENT}", BY_DATE
