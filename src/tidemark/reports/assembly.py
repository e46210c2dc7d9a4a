"""Builds the report worker and the report service from the configuration."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlalchemy.exc import OperationalError

from tidemark.config.reports import Reports
from tidemark.contract.errors import ConfigError, RetriableError
from tidemark.listener.executor import InProcessExecutor
from tidemark.listener.listener import AtLeastOnceListener, Totals
from tidemark.listener.meter import Meter
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.archive.archive import Archive
from tidemark.reports.archive.guard import BREAKER, ArchiveGuard
from tidemark.reports.archive.objects import ObjectStore, open_objects
from tidemark.reports.publisher import ReportEventPublisher
from tidemark.reports.requests.claims import Claims
from tidemark.reports.requests.database import open_engine
from tidemark.reports.requests.store import StatusStore
from tidemark.reports.requests.tables import migrate
from tidemark.reports.service import ReportService
from tidemark.reports.strategy import ReportContext, StrategyRegistry
from tidemark.reports.sweeper import Sweeper
from tidemark.reports.worker import ReportWorker, judge
from tidemark.resilience.breaker import Breaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_store(settings: Reports) -> StatusStore:
    """The status database, brought to the newest schema. Raises `RetriableError` if it cannot be reached."""
    engine = open_engine(settings.database)
    try:
        migrate(engine)
    except OperationalError as error:
        engine.dispose()
        raise RetriableError(
            f"the status database cannot be reached: {error.orig}", hint="check `reports.database`"
        ) from None
    return StatusStore(engine)


def open_service(settings: Reports, connection: Mapping[str, object]) -> ReportService:
    """`connection`: how to reach Kafka, in librdkafka's names, for consumers and producers."""
    publisher = ReportEventPublisher(connection, topic=settings.topic, timeout=10)
    return ReportService(open_store(settings), publisher)


class RunningWorker:
    """The listener and the sweeper of one worker process. `run` ends when the listener's `run` ends."""

    def __init__(self, listener: AtLeastOnceListener, sweeper: Sweeper, store: StatusStore) -> None:
        self.listener = listener
        self.sweeper = sweeper
        self._store = store

    def run(self) -> Totals:
        self.sweeper.start()
        try:
            return self.listener.run()
        finally:
            self.sweeper.stop()
            self._store.engine.dispose()

    def stop(self) -> None:
        self.listener.stop()


def open_worker(
    settings: Reports,
    connection: Mapping[str, object],
    *,
    strategies: StrategyRegistry,
    open_spark: Callable[[], SparkSession] | None = None,
    objects: ObjectStore | None = None,
    breaker: Breaker | None = None,
    on_progress: Callable[[Totals], None] | None = None,
    metrics: Metrics | None = None,
) -> RunningWorker:
    store = open_store(settings)
    archive = Archive(objects if objects is not None else open_objects(settings.archive))
    claims = Claims(store.engine, owner=_unique_owner(), lease=settings.lease)

    def context(correlation_id: str) -> ReportContext:
        return ReportContext(settings.sources, open_spark or _no_spark, correlation_id)

    worker = ReportWorker(
        claims,
        archive,
        strategies,
        context=context,
        guard=ArchiveGuard(breaker or Breaker(BREAKER, settings.breaker)),
        max_crashes=settings.max_crashes,
    )
    listener = AtLeastOnceListener(
        settings.as_listener(),
        connection,
        executor=InProcessExecutor(worker.handle, judge=judge),
        on_given_up=worker.given_up,
        on_progress=on_progress,
        meter=None if metrics is None else Meter(metrics, settings.group_id),
    )
    publisher = ReportEventPublisher(connection, topic=settings.topic)
    sweeper = Sweeper(store, publisher, settings, archive=archive, metrics=metrics)
    return RunningWorker(listener, sweeper, store)


def _unique_owner() -> str:
    """A name of this process that no other has, as process ids come again."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(8)}"


def _no_spark() -> SparkSession:
    raise ConfigError("this worker was started without Spark", hint="its strategies must not need it")
