"""The newest own commits of a stream's table, as a person reads them: when, what, how far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.errors import UsageError
from tidemark.contract.marks import Marks
from tidemark.platform.session import on_databricks
from tidemark.sink import table as tables
from tidemark.sink.table_log import DeltaLog


@dataclass(frozen=True)
class CommitView:
    """One own commit. `rows`: how many it added. `at` is UTC, without zone."""

    version: int
    at: datetime | None
    kind: str
    seq: int
    rows: int
    counts: Mapping[str, int]
    marks: Marks
    reason: str | None


def recent_commits(
    spark: SparkSession, settings: Settings, label: str, *, limit: int = 20
) -> list[CommitView]:
    """Newest first; `label` is a stream's name, `.landing` behind it for its raw table. Reads the log only.

    Raises UsageError for a stream that is not configured or has no such table.
    """
    landing = label.endswith(".landing")
    refs = settings.tables(label.removesuffix(".landing"), scheme="s3" if on_databricks() else "s3a")
    table = refs.get("landing" if landing else "decoded")
    if table is None:
        raise UsageError(f"there is no table {label}")
    if tables.describe(spark, table) is None:
        return []
    return [
        CommitView(
            e.version,
            e.timestamp,
            e.own.kind.value,
            e.own.seq,
            e.rows_written,
            e.own.counts,
            e.own.marks,
            e.own.reason,
        )
        for e in DeltaLog(spark, table)(limit * 2).entries
        if e.own is not None
    ][:limit]
