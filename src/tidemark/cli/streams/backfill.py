"""`tidemark backfill`: decode an offset range again with today's schema and rules."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from tidemark.cli.options import DEFAULT_CONFIG, AsJson, Config, Target, by_partition, open_settings
from tidemark.cli.output import print_json, stderr, stdout
from tidemark.contract.marks import Marks

app = typer.Typer(add_completion=False)


@app.command()
def backfill(
    *,
    stream: Annotated[str, typer.Option("--stream", "-s", help="The stream whose table is corrected.")],
    range_: Annotated[
        list[str] | None,
        typer.Option(
            "--range", help="PARTITION=FROM..TO, TO excluded. Repeatable; by default all completed."
        ),
    ] = None,
    from_landing: Annotated[
        bool, typer.Option("--from-landing", help="Read the raw landing table, not Kafka.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would change, change nothing.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Rows with other values today are corrected, missing ones are added, but not in mode fingerprint, where they may
    be copies; none is deleted.
    """
    from tidemark.dead_letters.dlq_table.query import dead_letter_target
    from tidemark.operations.backfill import backfill as correct
    from tidemark.platform.open_session import session_for
    from tidemark.source.topics import KafkaAdmin
    from tidemark.streams.completed import completed_state

    usage = "PARTITION=FROM..TO, such as 0=1500..2000"
    ranges = by_partition("--range", range_ or [], r"(\d+)=(\d+)\.\.(\d+)", usage)
    settings = open_settings(config, target, streams=[stream])
    spark = session_for(settings)
    chosen = dead_letter_target(spark, settings, stream, run=uuid.uuid4().hex)
    if ranges:
        start, end = (Marks({p: bounds[i] for p, bounds in ranges.items()}) for i in (0, 1))
    else:
        admin = KafkaAdmin(settings.kafka)
        topic = admin.describe(chosen.stream.kafka_topic)
        start = Marks() if from_landing else admin.earliest(topic)
        end = completed_state(spark, chosen, topic).resume
    with stderr().status("backfill") as shown:
        done = correct(
            spark,
            settings,
            chosen,
            start=start,
            end=end,
            from_landing=from_landing,
            dry_run=dry_run,
            progress=lambda step: shown.update(f"backfill: {step}"),
        )
    if as_json:
        print_json(done.as_dict())
        return
    would = "would be " if dry_run else ""
    copies = f", {done.copies} absent, as copies may be," if done.copies else ","
    version = f", version {done.version}" if done.version is not None else ""
    stdout().print(
        f"{chosen.table}: {done.read} read, {done.changed} {would}corrected, {done.missing} {would}added{copies}"
        f" {done.rejected} rejected today {done.codes or ''}{version}"
    )
