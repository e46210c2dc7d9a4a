"""The bundle's jobs: one call for each notebook, from settings to the result."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.errors import NonRetriableError
from tidemark.contract.marks import Marks
from tidemark.ingest.application import Ingest
from tidemark.ingest.observers import COUNTED, BatchTotals
from tidemark.monitoring.logging import configure_logs
from tidemark.sink import table as tables
from tidemark.source.reader import read_range
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.targets import targets_of


def ingest_job(
    spark: SparkSession, settings: Settings, streams: Sequence[str] = (), *, available_now: bool = True
) -> dict[str, dict[str, int]]:
    """Land the streams, all by default; returns the counts of each stream's records by route.

    Raises the failure of the first stream that stopped, once the others have ended.
    """
    configure_logs(settings.logging)
    totals = BatchTotals()
    outcomes = Ingest(spark, settings, streams, available_now=available_now, observers=[totals]).run()
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        names = ", ".join(outcome.name for outcome in failed)
        raise NonRetriableError(f"stopped: {names}: {failed[0].error}") from failed[0].error
    return {o.name: {name: totals.of.get(o.name, {}).get(name, 0) for name in COUNTED} for o in outcomes}


def create_tables_job(spark: SparkSession, settings: Settings, streams: Sequence[str] = ()) -> dict[str, str]:
    """Create the streams' tables where they are absent; returns `created` or `there` for each table.

    Running it again changes nothing. Raises SchemaConflict where a table differs from its stream.
    """
    configure_logs(settings.logging)
    found: dict[str, str] = {}
    for name in streams or list(settings.streams):
        for target in targets_of(spark, settings, name, run="create-tables"):
            info = tables.describe(spark, target.table)
            found[str(target.table)] = "created" if info is None else "there"
            if info is None:
                info = tables.create(spark, target.table, target.schema, target.destination)
            evolve = target.stream.schema_evolution == "add-columns"
            tables.check_schema(spark, target.table, info, target.schema, evolve=evolve)
    return found


def envelopes_of(
    spark: SparkSession,
    settings: Settings,
    stream: str,
    *,
    partition: int = 0,
    first: int = 0,
    count: int = 20,
) -> DataFrame:
    """Records as Kafka has them: `ENVELOPE_COLUMNS` of [first, first + count), as far as the topic has them."""
    admin = KafkaAdmin(settings.kafka)
    topic = admin.describe(settings.stream(stream).kafka_topic)
    low, high = admin.earliest(topic).at(partition), admin.ends(topic).at(partition)
    start = min(max(first, low), high)
    end = min(start + count, high)
    return read_range(
        spark, settings.kafka, topic, start=Marks({partition: start}), end=Marks({partition: end})
    )
