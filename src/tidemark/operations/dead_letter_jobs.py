"""The bundle's jobs around dead letters: keep them in their table, and replay them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.replay import replay
from tidemark.dead_letters.selection import Choice
from tidemark.dead_letters.table import LetterTable
from tidemark.dead_letters.table_query import keep_letters, letter_target, start_letters
from tidemark.operations.jobs import logs_of
from tidemark.source.topics import KafkaAdmin

_LOOK_AGAIN_S = 30.0


def dead_letters_job(
    spark: SparkSession, settings: Settings, streams: Sequence[str] = (), *, available_now: bool = True
) -> dict[str, int]:
    """Bring the DLQ topics into their tables: dead letters a stream. Endless unless `available_now`.

    Raises what ended a query.
    """
    logs_of(settings)
    names = [n for n in streams or settings.streams if settings.stream(n).destination is not None]
    targets = {name: letter_target(spark, settings, name, run=uuid.uuid4().hex) for name in names}
    queries: dict[str, Any] = {}
    while not available_now:
        for name, target in targets.items():
            if queries.get(name) is None:  # its DLQ topic may not be there before the first dead letter
                queries[name] = start_letters(spark, settings, target, available_now=False)
        for query in filter(None, queries.values()):
            query.awaitTermination(1)
        time.sleep(1 if all(queries.values()) else _LOOK_AGAIN_S)
    for target in targets.values():
        keep_letters(spark, settings, target)
    return {name: LetterTable(t.table).letters(spark).count() for name, t in targets.items()}


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
    """Replay new dead letters, chosen by code and time (ISO 8601); counts of what became of them.

    Raises UsageError for a time that is none.
    """
    logs_of(settings)
    target = letter_target(spark, settings, stream, run=uuid.uuid4().hex)
    choice = Choice(codes=tuple(codes), since=_time("since", since), until=_time("until", until))
    admin = KafkaAdmin(settings.kafka)
    return replay(spark, admin, target, choice, dry_run=dry_run, by="replay job").as_dict()


def letters_of_stream(spark: SparkSession, settings: Settings, stream: str) -> DataFrame:
    """The stream's dead letters with their status, for a look."""
    target = letter_target(spark, settings, stream, run="look")
    return LetterTable(target.table).letters(spark)


def _time(name: str, written: str) -> datetime | None:
    try:
        return datetime.fromisoformat(written) if written else None
    except ValueError as error:
        raise UsageError(
            f"{name} is {written}, no time", "write it like 2026-01-31T12:00:00+00:00"
        ) from error
