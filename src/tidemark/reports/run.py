"""One report worker, put together from the configuration: what the command and the notebook call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidemark.config.settings import Settings
from tidemark.listener.from_settings import connection_of
from tidemark.listener.judging import backoff_of
from tidemark.listener.listener import Totals
from tidemark.reports.archive_guard import BREAKER, ArchiveGuard
from tidemark.reports.assembly import RunningWorker, open_worker
from tidemark.reports.from_settings import reports_of, s3_credentials
from tidemark.reports.objects import open_objects
from tidemark.reports.strategy import StrategyRegistry
from tidemark.resilience.breakers import FOLDER, Breakers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def worker_of(
    settings: Settings,
    *,
    open_spark: Callable[[], SparkSession] | None = None,
    strategies: StrategyRegistry | None = None,
    on_progress: Callable[[Totals], None] | None = None,
) -> RunningWorker:
    """With the landed report types and those of installed packages; Spark is started when needed."""
    reports = reports_of(settings)
    breakers = Breakers(settings.state_dir / FOLDER, reports.breaker)
    archive_breaker = breakers.get(BREAKER)
    return open_worker(
        reports,
        connection_of(settings),
        strategies=all_strategies() if strategies is None else strategies,
        backoff=backoff_of(reports.retry),
        open_spark=open_spark or _session,
        guard=ArchiveGuard(archive_breaker),
        objects=open_objects(reports.archive, credentials=s3_credentials(settings)),
        on_progress=on_progress,
    )


def all_strategies() -> StrategyRegistry:
    from tidemark.reports.landed import with_landed_strategies

    return with_landed_strategies(StrategyRegistry()).load_entry_points()


def _session() -> SparkSession:
    from tidemark.platform.session import get_session

    return get_session("tidemark-reports")
