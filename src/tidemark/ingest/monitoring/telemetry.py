"""Telemetry of a running ingest: metrics, their endpoints, the watch and the metrics table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.errors import TidemarkError
from tidemark.contract.events import StreamObserver
from tidemark.ingest.monitoring.breaker_table import BreakerTable
from tidemark.ingest.monitoring.health_checks import board_of
from tidemark.ingest.monitoring.metrics_table import MetricsTable, metrics_table_of
from tidemark.ingest.monitoring.watch import Watch
from tidemark.monitoring.endpoints import endpoints
from tidemark.monitoring.indicators import StreamInfo
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.recording import MetricsObserver, Seen
from tidemark.platform.session import over_connect
from tidemark.resilience.breakers import Breakers
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.status import StreamStatus, logs_of, partitions_of, status_of


@dataclass(frozen=True)
class Telemetry:
    """`observers` are for the ingest. `url`: the address of the endpoints; None where they do not answer."""

    metrics: Metrics
    observers: Sequence[StreamObserver]
    url: str | None


@contextmanager
def telemetry_of(settings: Settings, spark: SparkSession, *, run: str = "") -> Iterator[Telemetry]:
    """The telemetry that `metrics` in the configuration asks for, as long as the `with` lasts.

    It never stops a stream: an address in use, a table that cannot be written and a broker that does not
    answer are warnings.
    """
    metrics = Metrics(settings.application_name)
    observer = MetricsObserver(metrics)
    observers: list[StreamObserver] = [observer]
    for breaker in Breakers.of(settings).snapshots():
        metrics.breaker(breaker.name, breaker.state.value)
    with ExitStack() as running:
        table = metrics_table_of(settings)
        if table is not None:
            name = settings.application_name
            of_batches = MetricsTable(spark, table, metrics, application=name, run=run)
            of_breakers = BreakerTable(
                spark, table.breakers, metrics, application=name, run=run, breakers=Breakers.of(settings)
            )
            observers += [running.enter_context(each) for each in (of_batches, of_breakers)]
        url = None
        if settings.metrics.enabled:
            remote = over_connect(spark)
            watch = Watch(
                settings,
                metrics,
                lambda: _read(settings, spark) if remote else _looked(settings, observer),
                sets_lag=remote,
            )
            running.enter_context(watch)
            board = board_of(
                settings,
                metrics,
                spark=lambda: spark,
                facts=(lambda: _seen(watch, observer)) if remote else observer.facts,
                outcomes=observer.outcomes,
                waiting=observer.waiting,
            )
            url = running.enter_context(endpoints(settings.metrics, metrics, board))
        yield Telemetry(metrics, observers, url)


def _read(settings: Settings, spark: SparkSession) -> list[StreamStatus]:
    """The streams by their tables' logs: over Connect the batches run in another process."""
    return [status for name in settings.streams for status in status_of(logs_of(spark), settings, name)]


def _seen(watch: Watch, observer: MetricsObserver) -> dict[str, StreamInfo]:
    """Lag and age from the logs; whether a query runs, and the error that ended it, from this process."""
    here, found = observer.facts(), watch.facts()
    for name in here.keys() & found.keys():
        problem = here[name].problem or found[name].problem
        found[name] = replace(found[name], running=here[name].running, problem=problem)
    return found


def _looked(settings: Settings, observer: MetricsObserver) -> list[StreamStatus]:
    """The streams by the marks that this process knows and the broker's end offsets, without a Spark job."""
    admin = KafkaAdmin(settings.kafka, timeout=5.0)
    return [_status(admin, observer, seen) for seen in observer.streams().values()]


def _status(admin: KafkaAdmin, observer: MetricsObserver, seen: Seen) -> StreamStatus:
    try:
        topic = admin.describe(seen.topic)
        ends = admin.ends(topic)
    except TidemarkError as error:
        return StreamStatus(seen.stream, seen.topic, seen.table, problem=error.message)
    observer.ends_known(seen.stream, ends)
    return StreamStatus(seen.stream, seen.topic, seen.table, topic.id, partitions_of(seen.marks, ends))
