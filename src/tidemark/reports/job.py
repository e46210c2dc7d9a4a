"""The bundle's report worker: one call for a notebook."""

from __future__ import annotations

import threading
from dataclasses import asdict

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.listener.meter import watched
from tidemark.monitoring.logging import configure_logging
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.run import worker_of


def report_worker_job(
    spark: SparkSession, settings: Settings, *, minutes: float | None = None
) -> dict[str, int]:
    """Make the reports that are asked for, for so many minutes, or for ever; what was done.

    Raises ConfigError where the configuration has no `reports`.
    """
    logs = settings.logging
    configure_logging(logs.format, logs.level, secret_fields=logs.secret_fields)
    metrics = Metrics(settings.application_name)
    worker = worker_of(settings, open_spark=lambda: spark, metrics=metrics)
    if minutes is not None:
        timer = threading.Timer(minutes * 60, worker.stop)
        timer.daemon = True
        timer.start()
    with watched(settings, metrics, lambda: worker.listener.heartbeat):
        return asdict(worker.run())
