"""Opens the tables of streams for a command."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.config.settings import Settings
    from tidemark.streams.target import Target


def open_targets(settings: Settings, *streams: str) -> tuple[SparkSession, list[Target]]:
    """A session, and the tables of the streams. Raises ConfigError with the faults of a stream."""
    from tidemark.platform.open_session import session_for
    from tidemark.streams.targets import targets_of

    spark, run = session_for(settings), uuid.uuid4().hex
    return spark, [target for name in streams for target in targets_of(spark, settings, name, run=run)]
