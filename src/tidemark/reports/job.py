"""The bundle's report worker: one call for a notebook."""

from __future__ import annotations

import threading
from dataclasses import asdict

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.observe.logging import configure_logging
from tidemark.reports.run import worker_of


def report_worker_job(
    spark: SparkSession, settings: Settings, *, minutes: float | None = None
) -> dict[str, int]:
    """Make the reports that are asked for, for so many minutes, or for ever; what was done.

    Raises ConfigError where the configuration has no `reports`.
    """
    logs = settings.logging
    configure_logging(logs.format, logs.level, secret_fields=logs.secret_fields)
    worker = worker_of(settings, open_spark=lambda: spark)
    if minutes is not None:
        timer = threading.Timer(minutes * 60, worker.stop)
        timer.daemon = True
        timer.start()
    return asdict(worker.run())
