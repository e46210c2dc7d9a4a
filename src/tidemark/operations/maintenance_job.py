"""The bundle's maintenance: every table of the streams compacted, vacuumed and tidied."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.operations.jobs import logs_of
from tidemark.operations.maintain import MaintenanceResult, maintain
from tidemark.streams.targets import targets_of


def maintenance_job(
    spark: SparkSession, settings: Settings, streams: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Safe while streams write: each piece of upkeep that was done. Rows stay as they are."""
    logs_of(settings)
    how = MaintenanceResult(today=datetime.now(UTC).date())
    names = streams or list(settings.streams)
    targets = [t for name in names for t in targets_of(spark, settings, name, run=uuid.uuid4().hex)]
    return [done.as_dict() for target in targets for done in maintain(spark, target, how)]
