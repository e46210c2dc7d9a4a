"""A Delta table's log as Tidemark reads it: newest first, through the public history only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidemark.config.destination import TableRef
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.platform.capabilities import keeps_rows
from tidemark.sink.damaged_log import log_readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEDGER_OPERATIONS = frozenset({"WRITE", "MERGE"})


@dataclass(frozen=True)
class LogEntry:
    """One commit of the table. `ledger_commit` only for a WRITE or MERGE with an entry of Tidemark.

    Other operations do not count, such as a RESTORE in a session that still has Tidemark's `userMetadata`.
    """

    version: int
    operation: str
    timestamp: datetime | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    ledger_commit: LedgerCommit | None = None

    @property
    def rows_written(self) -> int:
        """Rows that this commit added; of a MERGE the inserted ones."""
        return self._metric("numTargetRowsInserted", "numOutputRows")

    @property
    def files_written(self) -> int:
        return self._metric("numTargetFilesAdded", "numFiles")

    @property
    def bytes_written(self) -> int:
        return self._metric("numTargetBytesAdded", "numOutputBytes")

    def _metric(self, *names: str) -> int:
        return next((int(self.metrics[name]) for name in names if name in self.metrics), 0)


@dataclass(frozen=True)
class LogPage:
    """The newest entries of a log, newest first; `complete` if they reach the log's beginning."""

    entries: Sequence[LogEntry]
    complete: bool

    @property
    def version(self) -> int:
        return self.entries[0].version


ReadLog = Callable[[int], LogPage]
"""Reads the newest `limit` entries: all that the ledger needs of a table."""


@dataclass(frozen=True)
class DeltaLog:
    """Reads `DESCRIBE HISTORY` through Spark, classic or Connect. Raises LedgerError where a file of the log
    cannot be read.
    """

    spark: SparkSession
    table: TableRef

    @log_readable()
    def __call__(self, limit: int) -> LogPage:
        # Delta's own API needs a plugin in the server over Connect.
        rows = self.spark.sql(f"DESCRIBE HISTORY {self.table.sql} LIMIT {int(limit)}").collect()
        entries = sorted((_entry(row.asDict()) for row in rows), key=lambda entry: -entry.version)
        return LogPage(entries, complete=len(entries) < limit)


def as_of_now(spark: SparkSession, table: TableRef) -> DataFrame:
    """The table's rows. Where Spark cannot keep rows between two reads (`keeps_rows`), the rows of the present
    version, whatever is committed before the next read.
    """
    if keeps_rows(spark):
        return spark.table(table.sql)
    return spark.sql(f"SELECT * FROM {table.sql} VERSION AS OF {DeltaLog(spark, table)(1).version}")


def _entry(row: dict[str, Any]) -> LogEntry:
    return entry_of(
        row["version"],
        operation=row["operation"] or "",
        timestamp=row["timestamp"],
        parameters=dict(row["operationParameters"] or {}),
        metrics=dict(row["operationMetrics"] or {}),
        metadata=row["userMetadata"],
    )


def entry_of(
    version: int,
    *,
    operation: str,
    timestamp: datetime | None,
    parameters: dict[str, str],
    metrics: dict[str, str],
    metadata: str | None,
) -> LogEntry:
    """An entry of the log, with its ledger commit where the operation can be one."""
    ledger_commit = LedgerCommit.from_json(metadata) if operation in LEDGER_OPERATIONS else None
    return LogEntry(version, operation, timestamp, parameters, metrics, ledger_commit)
