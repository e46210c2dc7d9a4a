"""The bundle's maintenance job: compacts, vacuums and cleans up every table of the streams."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.monitoring.logging import configure_logs
from tidemark.operations.maintain import Maintenance, maintain_all


def maintenance_job(
    spark: SparkSession, settings: Settings, streams: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Returns each maintenance step that was done. Safe while streams write; rows do not change.

    The metrics table and that of breakers have their turn where no streams are named.
    """
    configure_logs(settings.logging)
    how = Maintenance(today=datetime.now(UTC).date())
    return [step.as_dict() for step in maintain_all(spark, settings, streams, how)]
