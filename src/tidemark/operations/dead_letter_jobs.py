"""The bundle's jobs for dead letters: store them in their table, and replay them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.selection import Selection
from tidemark.dead_letters.service import DeadLetters
from tidemark.ingest.dead_letter_table import DeadLetterTableQuery
from tidemark.monitoring.logging import configure_logs


def dead_letters_job(
    spark: SparkSession, settings: Settings, streams: Sequence[str] = (), *, available_now: bool = True
) -> dict[str, int]:
    """Land the DLQ topics in their tables; returns the dead letters of each stream.

    Endless unless `available_now`: a query that fails is logged and started again, as its dead letters are safe on
    the topic. Raises what a person has to fix. Leaves out streams with `keep-table`, whose own application does it.
    """
    configure_logs(settings.logging)
    found: dict[str, DeadLetters] = {}
    for name in streams or settings.streams:
        stream = settings.stream(name)
        if stream.destination is not None and not stream.dead_letter.keep_table:
            found[name] = DeadLetters.of(spark, settings, name)
    queries = [
        DeadLetterTableQuery(spark, settings, each.target, available_now, polling=len(found), alone=True)
        for each in found.values()
    ]
    while not available_now:
        for query in queries:
            query()
        time.sleep(1)
    for dead_letters in found.values():
        dead_letters.catch_up()
    return {name: dead_letters.all().count() for name, dead_letters in found.items()}


def replay_job(
    spark: SparkSession,
    settings: Settings,
    stream: str,
    *,
    codes: Sequence[str] = (),
    since: str = "",
    until: str = "",
    dry_run: bool = True,
) -> dict[str, Any]:
    """Replay new dead letters, selected by code and time (ISO 8601); returns the counts of the results.

    Raises UsageError for an invalid time.
    """
    configure_logs(settings.logging)
    selection = Selection(codes=tuple(codes), since=_time("since", since), until=_time("until", until))
    done = DeadLetters.of(spark, settings, stream).replay(selection, dry_run=dry_run, by="replay job")
    return done.as_dict()


def dead_letters_of_stream(spark: SparkSession, settings: Settings, stream: str) -> DataFrame:
    """The stream's dead letters with their status."""
    return DeadLetters.of(spark, settings, stream).all()


def _time(name: str, written: str) -> datetime | None:
    try:
        return datetime.fromisoformat(written) if written else None
    except ValueError as error:
        raise UsageError(
            f"{name} is {written}, not a time", "write it like 2026-01-31T12:00:00+00:00"
        ) from error
