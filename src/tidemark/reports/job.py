"""The bundle's report worker: one call for a notebook."""

from __future__ import annotations

import threading
from dataclasses import asdict

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError
from tidemark.listener.meter import watched
from tidemark.monitoring.logging import configure_logs
from tidemark.monitoring.metrics import Metrics
from tidemark.platform.session import on_databricks
from tidemark.reports.from_settings import reports_of
from tidemark.reports.publisher import ensure_topics
from tidemark.reports.run import worker_of
from tidemark.source.topics import KafkaAdmin


def report_worker_job(
    spark: SparkSession, settings: Settings, *, minutes: float | None = None
) -> dict[str, int]:
    """Makes requested reports for `minutes`, or without end; returns the listener's totals.

    Creates the topic of the requests where it is absent. Raises ConfigError where the configuration has no
    `reports`, or on Databricks a database that a worker and the console cannot share.
    """
    if settings.reports is None:
        raise ConfigError(
            "the configuration has no section `reports`, which a report worker needs",
            "add it, with a PostgreSQL `database` that worker and console share; docs/reports.md",
        )
    if on_databricks() and settings.reports.database.startswith("sqlite"):
        raise ConfigError(
            "`reports.database` is SQLite: a file that another run, or the console, does not see",
            "a PostgreSQL, such as Lakebase: postgresql+psycopg://${REPORTS_DATABASE}",
        )
    configure_logs(settings.logging)
    ensure_topics(KafkaAdmin(settings.kafka), reports_of(settings))
    metrics = Metrics(settings.application_name)
    worker = worker_of(settings, open_spark=lambda: spark, metrics=metrics)
    if minutes is not None:
        timer = threading.Timer(minutes * 60, worker.stop)
        timer.daemon = True
        timer.start()
    with watched(settings, metrics, lambda: worker.listener.heartbeat):
        return asdict(worker.run())
