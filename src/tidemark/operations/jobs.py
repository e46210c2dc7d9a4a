"""The bundle's jobs: one call for each notebook, from settings to the result."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import NonRetriableError
from tidemark.contract.events import Event, StreamObserver
from tidemark.contract.marks import Marks
from tidemark.ingest.application import Ingest
from tidemark.ingest.monitoring.telemetry import telemetry_of
from tidemark.monitoring.logging import configure_logging
from tidemark.sink import table as tables
from tidemark.source.reader import read_range
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.targets import targets_of

_COUNTED = ("read", "accepted", "rejected", "skipped", "duplicate")


def ingest_job(
    spark: SparkSession, settings: Settings, streams: Sequence[str] = (), *, available_now: bool = True
) -> dict[str, dict[str, int]]:
    """Land the streams, all by default; returns the counts of each stream's records by route.

    Raises the failure of the first stream that stopped, once the others have ended.
    """
    configure_logs(settings)
    totals = _Totals()
    with telemetry_of(settings, spark) as telemetry:
        observers = [totals, *telemetry.observers]
        outcomes = Ingest(spark, settings, streams, available_now=available_now, observers=observers).run()
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        names = ", ".join(outcome.name for outcome in failed)
        raise NonRetriableError(f"stopped: {names}: {failed[0].error}") from failed[0].error
    return {o.name: totals.of.get(o.name, dict.fromkeys(_COUNTED, 0)) for o in outcomes}


def create_tables_job(spark: SparkSession, settings: Settings, streams: Sequence[str] = ()) -> dict[str, str]:
    """Create the streams' tables where they are absent; returns `created` or `there` for each table.

    Running it again changes nothing. Raises SchemaConflict where a table differs from its stream.
    """
    configure_logs(settings)
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


def configure_logs(settings: Settings) -> None:
    logs = settings.logging
    configure_logging(logs.format, logs.level, secret_fields=logs.secret_fields)


class _Totals(StreamObserver):
    """Adds up the batches of each stream."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, int]] = {}

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport):
            counts = self.of.setdefault(event.stream, dict.fromkeys(_COUNTED, 0))
            for name in _COUNTED:
                counts[name] += getattr(event, name)
