"""Builds and serves the console of a configuration: the entry point of `tidemark serve`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidemark.config.sections import MetricsSettings
from tidemark.config.settings import Settings
from tidemark.console.application import Parts, application_of
from tidemark.console.dead_letter_pages import dead_letter_routes
from tidemark.console.dead_letter_service import DeadLetterService, OpenDeadLetters
from tidemark.console.lazy import Lazy
from tidemark.console.report_pages import LateReports
from tidemark.console.stream_pages import StreamSources
from tidemark.ingest.monitoring.breaker_table import KnownBreakers
from tidemark.ingest.monitoring.health_checks import board_of
from tidemark.ingest.monitoring.watch import Watch
from tidemark.listener.from_settings import connection_of
from tidemark.monitoring.access import Token
from tidemark.monitoring.indicators import DeadLetterRate
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.server import HttpServer
from tidemark.operations.commits import recent_commits
from tidemark.reports.assembly import open_service
from tidemark.reports.from_settings import reports_of
from tidemark.reports.run import all_strategies
from tidemark.streams.status import StreamStatus, logs_of, status_of


@dataclass(frozen=True)
class Serving:
    """`sign_in`: the address that signs a person in. Its token is behind the #, which a browser never sends."""

    server: HttpServer
    token: str
    made_up: bool

    @property
    def sign_in(self) -> str:
        return f"{self.server.url}/sign-in#token={self.token}"


@contextmanager
def serving(
    settings: Settings,
    open_spark: Callable[[], SparkSession],
    *,
    at: MetricsSettings | None = None,
    every: float = 5.0,
) -> Iterator[Serving]:
    """Serves within the `with`. Answers at once, and shows the streams once Spark has started.

    Without `metrics.token` it makes a token for this run. Raises UsageError where the address is in use.
    """
    where = at or settings.metrics
    spark = Lazy(open_spark)
    metrics = Metrics(settings.application_name)
    given = where.token.get_secret_value() if where.token is not None else ""
    token = given or secrets.token_urlsafe(24)
    breakers = KnownBreakers(settings, spark)

    service = DeadLetterService(settings, spark)
    dead_letters = OpenDeadLetters(service, metrics)

    def look() -> list[StreamStatus]:
        breakers.read_if_due()
        for breaker in breakers.all():
            metrics.breaker(breaker.name, breaker.state.value)
        found = [s for name in settings.streams for s in status_of(logs_of(spark()), settings, name)]
        dead_letters.count_if_due()
        return found

    with ExitStack() as running:
        watch = Watch(settings, metrics, look, every=every)
        board = board_of(
            settings,
            metrics,
            spark=spark,
            facts=watch.facts,
            outcomes=lambda: {
                n: s.problem if s.topic_id is None else None for n, s in watch.statuses.items()
            },
            rate=DeadLetterRate(watch.progress, most=settings.metrics.dead_letter_share, since_start=False),
            breakers=lambda: {breaker.name: breaker.state.value for breaker in breakers.all()},
        )
        reports = LateReports(lambda: open_service(reports_of(settings), connection_of(settings)))
        running.callback(reports.close)
        parts = Parts(
            application=settings.application_name,
            streams=StreamSources(
                watch=watch,
                metrics=metrics,
                board=board,
                breakers=breakers.all,
                commits=lambda name: recent_commits(spark(), settings, name),
                stale_after=settings.metrics.stale_after,
                open_codes=dead_letters.codes,
            ),
            reports=reports,
            report_types=sorted(all_strategies()),
            further=dead_letter_routes(service),
        )
        application = application_of(parts, token=Token(token), loopback=where.is_loopback)
        server = running.enter_context(HttpServer(application, host=where.host, port=where.port))
        running.enter_context(watch)
        yield Serving(server, token, made_up=not given)
