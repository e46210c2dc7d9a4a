"""Puts a worker and a requester's side together from the configuration."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlalchemy.exc import OperationalError

from tidemark.config.reports import Reports
from tidemark.contract.errors import ConfigError, RetriableError
from tidemark.listener.delivery.dead_letter import DeadLetterPublisher
from tidemark.listener.executor import InProcessExecutor
from tidemark.listener.listener import AtLeastOnceListener, Totals
from tidemark.listener.meter import Meter
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.archive.archive import Archive
from tidemark.reports.archive.guard import BREAKER, ArchiveGuard, Guard
from tidemark.reports.archive.objects import ObjectStore, open_objects
from tidemark.reports.publisher import ReportEventPublisher
from tidemark.reports.requests.claims import Claims
from tidemark.reports.requests.database import open_engine
from tidemark.reports.requests.request import Status
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
    """`connection`: librdkafka's names of where and how to connect, for consumers and producers alike."""
    publisher = ReportEventPublisher(connection, topic=settings.topic, timeout=10)
    return ReportService(open_store(settings), publisher)


class RunningWorker:
    """One worker process: its listener and its sweeper. `run` ends as a listener's does."""

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
    backoff: Callable[[int], float],
    open_spark: Callable[[], SparkSession] | None = None,
    objects: ObjectStore | None = None,
    guard: Guard | None = None,
    owner: str | None = None,
    failpoint: Callable[[str], None] = lambda point: None,
    on_progress: Callable[[Totals], None] | None = None,
    metrics: Metrics | None = None,
) -> RunningWorker:
    store = open_store(settings)
    archive = Archive(objects if objects is not None else open_objects(settings.archive))
    claims = Claims(store.engine, owner=owner or unique_owner(), lease=settings.lease)

    def context(correlation_id: str) -> ReportContext:
        return ReportContext(settings.sources, open_spark or _no_spark, correlation_id)

    worker = ReportWorker(
        claims,
        archive,
        strategies,
        context=context,
        guard=guard or ArchiveGuard(Breaker(BREAKER, settings.breaker)),
        max_crashes=settings.max_crashes,
        failpoint=failpoint,
    )
    listening = settings.as_listener()
    listener = AtLeastOnceListener(
        listening,
        connection,
        executor=InProcessExecutor(worker.handle, judge=judge),
        dead_letters=DeadLetterPublisher(
            connection,
            group=settings.group_id,
            dlq_topic_of=listening.dlq_topic_of,
            timeout=settings.dlq_timeout,
        ),
        backoff=backoff,
        on_given_up=worker.given_up,
        on_progress=on_progress,
        meter=None if metrics is None else Meter(metrics, settings.group_id),
    )
    publisher = ReportEventPublisher(connection, topic=settings.topic)
    sweeper = Sweeper(store, publisher, settings, archive=archive, on_counts=_telling(metrics))
    return RunningWorker(listener, sweeper, store)


def _telling(metrics: Metrics | None) -> Callable[[Mapping[Status, int]], None] | None:
    if metrics is None:
        return None

    def tell(counts: Mapping[Status, int]) -> None:
        for status in Status:
            metrics.set("tidemark_report_requests", counts.get(status, 0), status=status.value)

    return tell


def unique_owner() -> str:
    """Names this process for good: a process id comes again, this does not."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:{secrets.token_hex(8)}"


def _no_spark() -> SparkSession:
    raise ConfigError("this worker was started without Spark", hint="its strategies must not need it")
