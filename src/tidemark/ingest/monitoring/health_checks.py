"""The health board of a process: the indicators of docs/metrics.md over the configured dependencies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from tidemark.config.destination import TableRef
from tidemark.config.settings import Settings
from tidemark.contract.errors import RetriableError
from tidemark.monitoring import indicators as named
from tidemark.monitoring.health import HealthBoard
from tidemark.monitoring.metrics import Metrics
from tidemark.platform.notebook import VOLUMES, in_app
from tidemark.platform.session import s3_scheme
from tidemark.resilience.breakers import Breakers
from tidemark.sink.log_files import log_of
from tidemark.source.topics import KafkaAdmin


def board_of(
    settings: Settings,
    metrics: Metrics,
    *,
    spark: Callable[[], SparkSession],
    facts: Callable[[], Mapping[str, named.StreamInfo]],
    outcomes: Callable[[], Mapping[str, str | None]],
    rate: named.DeadLetterRate | None = None,
    waiting: Callable[[], Sequence[str] | None] | None = None,
    breakers: Callable[[], Mapping[str, str]] | None = None,
) -> HealthBoard:
    """All indicators. Readiness depends on Kafka and storage, without which nothing can land, and, where
    streams run in this process, on all having started (`waiting`: those that have not). `breakers`: the state of
    each; by default of those in the state folder.
    """
    here, most = Breakers.of(settings), settings.metrics.dead_letter_share
    board = HealthBoard(
        {
            named.KAFKA: named.reachable(lambda: kafka(settings)),
            named.STORAGE: named.reachable(lambda: storage(settings, spark)),
            named.DELTA_WRITE: named.delta_write(outcomes),
            named.BREAKERS: named.breakers(
                breakers or (lambda: {b.name: b.state.value for b in here.snapshots()})
            ),
            named.DLQ_RATE: rate or named.DeadLetterRate(lambda: named.processed(metrics), most=most),
            named.FRESHNESS: named.freshness(facts, stale_after=settings.metrics.stale_after),
        },
        ready=(named.KAFKA, named.STORAGE, named.STARTED),
    )
    if waiting is not None:
        board.add(named.STARTED, named.started(waiting))
    return board


def kafka(settings: Settings) -> dict[str, object]:
    """Raises RetriableError where the broker does not answer. A topic that is absent is reported, not raised."""
    admin = KafkaAdmin(settings.kafka, timeout=2.5)
    topics = {stream.kafka_topic for stream in settings.streams.values()}
    absent = sorted(t for t in topics if admin.find(t) is None)
    found: dict[str, object] = {"bootstrapServers": settings.kafka.bootstrap_servers, "topics": len(topics)}
    return {**found, "absent": absent} if absent else found


def storage(settings: Settings, spark: Callable[[], SparkSession]) -> dict[str, object]:
    """Raises where a table's location cannot be reached, or a local one cannot be written."""
    tables = [t for name in settings.streams for t in settings.tables(name, scheme=s3_scheme()).values()]
    if "://" not in settings.checkpoint_root and not (
        in_app() and settings.checkpoint_root.startswith(VOLUMES)
    ):
        _check_folder(settings.checkpoint_root)
    for table in tables:
        if table.is_local:
            _check_folder(str(table.path).removeprefix("file:"))
        else:
            _check_log(spark(), table)
    return {"tables": len(tables)}


def _check_folder(path: str) -> None:
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        raise RetriableError(f"{place} cannot be read and written by this user")


def _check_log(spark: SparkSession, table: TableRef) -> None:
    try:
        log_of(spark, table)(1)
    except Exception as error:
        # An absent table is an answer too: its store was reached.
        if "NOT_FOUND" in str(error) or "DELTA_MISSING_DELTA_TABLE" in str(error):
            return
        raise
