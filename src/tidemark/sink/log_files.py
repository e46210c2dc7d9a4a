"""A Delta table's log read from its commit files: a hundredth of what Spark takes for its history."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidemark.config.destination import TableRef
from tidemark.contract.errors import LedgerError
from tidemark.platform.files import Files, LocalFiles
from tidemark.platform.session import drives_here
from tidemark.sink.table_log import DeltaLog, LogEntry, LogPage, ReadLog, entry_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMMIT = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class LogFiles:
    """The same pages as `DeltaLog` for a table that is a folder, from the `commitInfo` of its commits.

    A table whose commits are elsewhere (`catalogManaged`) has a name, not a folder, and is read by Spark.
    """

    files: Files
    folder: str

    def __call__(self, limit: int) -> LogPage:
        """The newest `limit` entries. Raises LedgerError for a commit file that cannot be read."""
        found = (_COMMIT.fullmatch(name) for name in self.files.names(self.folder))
        versions = heapq.nlargest(limit, (int(match[1]) for match in found if match))
        entries = [self._entry(version) for version in versions]
        return LogPage(entries, complete=len(entries) < limit)

    def _entry(self, version: int) -> LogEntry:
        path = f"{self.folder}/{version:020}.json"
        text = self.files.read_text(path)
        try:
            actions = (json.loads(line) for line in (text or "").splitlines() if '"commitInfo"' in line)
            info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
        except (ValueError, TypeError) as error:
            raise LedgerError(
                f"a file of the table's log cannot be read: {path}",
                "docs/runbook.md, The table's log is damaged, says what to do",
            ) from error
        return entry_of(
            version,
            operation=info.get("operation") or "",
            timestamp=_moment(info.get("inCommitTimestamp", info.get("timestamp"))),
            parameters=_texts(info.get("operationParameters")),
            metrics=_texts(info.get("operationMetrics")),
            metadata=info.get("userMetadata"),
        )


def log_of(spark: SparkSession, table: TableRef) -> ReadLog:
    """The table's log as a driver reads it: from its files where the table is a folder of this machine, else through
    Spark. Whatever is out of the ordinary in the folder is left to Spark to read, or to refuse.
    """
    by_spark = DeltaLog(spark, table)
    if table.path is None or not table.is_local or not drives_here(spark):
        return by_spark
    from_files = LogFiles(LocalFiles(), _log_folder(table.path))

    def read(limit: int) -> LogPage:
        try:
            page = from_files(limit)
        except (OSError, LedgerError):
            return by_spark(limit)
        return page if _is_ordinary(page) else by_spark(limit)

    return read


def _is_ordinary(page: LogPage) -> bool:
    """Whether there are commits, none is missing between them, and each says what it did."""
    versions = [entry.version for entry in page.entries]
    without_gap = bool(versions) and versions[0] - versions[-1] == len(versions) - 1
    return without_gap and all(entry.operation for entry in page.entries)


def logs_in(files_at: Callable[[str], Files]) -> Callable[[TableRef], ReadLog | None]:
    """The log of each table that is a folder; None where it has no commit yet."""

    def log(table: TableRef) -> ReadLog | None:
        assert table.path is not None
        folder = _log_folder(table.path)
        files = files_at(folder)
        return LogFiles(files, folder) if any(map(_COMMIT.fullmatch, files.names(folder))) else None

    return log


def _log_folder(path: str) -> str:
    return f"{path.rstrip('/')}/_delta_log"


def _texts(values: dict[str, Any] | None) -> dict[str, str]:
    """A map of texts as in `DESCRIBE HISTORY`, without nulls."""
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in (values or {}).items() if v is not None}


def _moment(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
