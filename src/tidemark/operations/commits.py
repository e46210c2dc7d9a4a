"""The newest ledger commits of a stream's table, for a person to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from tidemark.config.settings import Settings
from tidemark.contract.errors import UsageError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.platform.session import s3_scheme
from tidemark.sink import table as tables
from tidemark.sink.log_files import log_of
from tidemark.sink.table_log import LogEntry, ReadLog


@dataclass(frozen=True)
class CommitView:
    """One ledger commit. `rows`: the number it added. `at`: UTC, without zone."""

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
    refs = settings.tables(label.removesuffix(".landing"), scheme=s3_scheme())
    table = refs.get("landing" if landing else "decoded")
    if table is None:
        raise UsageError(f"there is no table {label}")
    if tables.describe(spark, table) is None:
        return []
    return newest_commits(log_of(spark, table), limit)


def newest_commits(read_log: ReadLog, limit: int) -> list[CommitView]:
    """The newest ledger commits, whatever other commits lie between them."""
    asked = limit * 2
    while True:
        page = read_log(asked)
        found = [_view(e, e.ledger_commit) for e in page.entries if e.ledger_commit is not None]
        if len(found) >= limit or page.complete:
            return found[:limit]
        asked *= 4


def _view(entry: LogEntry, ledger_commit: LedgerCommit) -> CommitView:
    return CommitView(
        entry.version,
        entry.timestamp,
        ledger_commit.kind.value,
        ledger_commit.seq,
        entry.rows_written,
        ledger_commit.counts,
        ledger_commit.marks,
        ledger_commit.reason,
    )
