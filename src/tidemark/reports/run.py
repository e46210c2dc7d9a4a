"""The report worker of a configuration: the entry point of the command and of the notebook."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidemark.config.reports import Reports
from tidemark.config.settings import Settings
from tidemark.contract.errors import RetriableError
from tidemark.listener.from_settings import connection_of
from tidemark.listener.listener import Totals
from tidemark.listener.meter import BreakerMetrics
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.archive.archive import Archive, Archived
from tidemark.reports.archive.guard import BREAKER
from tidemark.reports.archive.objects import open_objects
from tidemark.reports.assembly import RunningWorker, open_service, open_worker
from tidemark.reports.from_settings import reports_of, s3_credentials
from tidemark.reports.publisher import ensure_topics
from tidemark.reports.requests.request import Status
from tidemark.reports.requests.store import StatusRow
from tidemark.reports.strategy import StrategyRegistry
from tidemark.resilience.breakers import FOLDER, Breakers
from tidemark.source.topics import KafkaAdmin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def worker_of(
    settings: Settings,
    *,
    open_spark: Callable[[], SparkSession] | None = None,
    strategies: StrategyRegistry | None = None,
    on_progress: Callable[[Totals], None] | None = None,
    metrics: Metrics | None = None,
) -> RunningWorker:
    """A worker for the built-in report types and those of installed packages. Starts Spark when it is needed."""
    reports = reports_of(settings)
    breakers = Breakers(settings.state_dir / FOLDER, reports.breaker)
    archive_breaker = breakers.get(BREAKER)
    if metrics is not None:
        metrics.breaker(BREAKER, archive_breaker.snapshot().state.value)
        archive_breaker.add_listener(BreakerMetrics(metrics))
    return open_worker(
        reports,
        connection_of(settings),
        strategies=all_strategies() if strategies is None else strategies,
        open_spark=open_spark or _session,
        breaker=archive_breaker,
        objects=open_objects(reports.archive, credentials=s3_credentials(settings)),
        on_progress=on_progress,
        metrics=metrics,
    )


def report_now(
    settings: Settings,
    report_type: str,
    *,
    requested_by: str,
    parameters: Mapping[str, Any] | None = None,
    open_spark: Callable[[], SparkSession] | None = None,
    strategies: StrategyRegistry | None = None,
    timeout: float = 300.0,
) -> Archived:
    """Submits a request, runs it with a worker in this process, and returns the archived report.

    For a demo or a notebook: the request goes through the topic and the claim like any other. Raises
    `RetriableError` if there is no report after `timeout` seconds or the request ended without one.
    """
    reports = reports_of(settings)
    ensure_topics(KafkaAdmin(settings.kafka), reports)
    service = open_service(reports, connection_of(settings))
    worker = worker_of(settings, open_spark=open_spark, strategies=strategies)
    thread = threading.Thread(target=worker.run, name="report-worker", daemon=True)
    try:
        row, _ = service.submit(report_type, requested_by=requested_by, parameters=dict(parameters or {}))
        thread.start()
        deadline = time.monotonic() + timeout
        while row.status in (Status.SUBMITTED, Status.IN_PROGRESS) and time.monotonic() < deadline:
            if not thread.is_alive():
                break
            time.sleep(0.1)
            row = service.status(row.request.request_id)
        archived = _archived(settings, reports, row)
    finally:
        worker.stop()
        if thread.ident is not None:
            thread.join(reports.shutdown_timeout + 10)
        service.close()
    return archived


def _archived(settings: Settings, reports: Reports, row: StatusRow) -> Archived:
    archive = Archive(open_objects(reports.archive, credentials=s3_credentials(settings)))
    archived = archive.read(row.archive_ref) if row.archive_ref else None
    if archived is None:
        raise RetriableError(
            f"request {row.request.request_id} is {row.status.value}: {row.error_message or 'no report yet'}",
            hint="`tidemark reports status` says more",
        )
    return archived


def all_strategies() -> StrategyRegistry:
    from tidemark.reports.landed import with_landed_strategies

    return with_landed_strategies(StrategyRegistry()).load_entry_points()


def _session() -> SparkSession:
    from tidemark.platform.session import get_session

    return get_session("tidemark-reports")
