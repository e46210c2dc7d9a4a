"""Maintenance of tables: compaction, vacuum, old checkpoints, closed dead letters."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.config.settings import Settings
from tidemark.contract.dead_letters import DEAD_LETTER_ID, DeadLetterStatus
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.ingest.monitoring.metrics_table import metrics_table_of
from tidemark.platform.commit_lock import commit_lock
from tidemark.platform.files import files_at
from tidemark.platform.kept_rows import kept
from tidemark.sink import table as tables
from tidemark.sink.ledger import read_state
from tidemark.sink.log_files import log_of
from tidemark.streams.target import Target
from tidemark.streams.targets import targets_of

log = structlog.get_logger(__name__)

SHORTEST_RETENTION_HOURS = 168
"""Delta's own seven days: readers of older versions and a RESTORE still find their files."""


@dataclass(frozen=True)
class MaintenanceResult:
    """One maintenance step. `files`: those it removed; of a compaction, the small files that it combined."""

    table: str
    what: str
    files: int
    detail: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"table": self.table, "what": self.what, "files": self.files, "detail": self.detail}


@dataclass(frozen=True)
class Maintenance:
    """The options of a run. `today`: the date by which COB dates are closed.

    `open_partitions`: also compact the partitions that still receive records.
    """

    today: date
    open_partitions: bool = False
    retention_hours: int = SHORTEST_RETENTION_HOURS
    forget_letters_after: timedelta | None = None

    def __post_init__(self) -> None:
        if self.retention_hours < SHORTEST_RETENTION_HOURS:
            raise UsageError(
                f"a retention of {self.retention_hours} h is below {SHORTEST_RETENTION_HOURS} h: files that"
                " running queries read, or that a RESTORE needs, would be gone",
                f"keep {SHORTEST_RETENTION_HOURS} h or more",
            )


def maintain(spark: SparkSession, target: Target, how: Maintenance) -> Iterator[MaintenanceResult]:
    """Yields each step as it is done. None is a ledger commit or moves a mark; a stream may write meanwhile.

    Rows do not change: OPTIMIZE rearranges files, VACUUM removes files that no version in the retention needs,
    and only checkpoints that no ledger commit names any more are deleted.
    """
    landed = [target.table] if target.decode is None else [target.table, *_dead_letters_of(target)]
    for table in landed:
        if tables.describe(spark, table) is None:
            continue
        closed = _closed_dates(target, how.today) if table == target.table else None
        if closed is not None:
            yield _compact(spark, table, closed)
        if closed is None or how.open_partitions:
            yield _compact(spark, table)
        yield _vacuum(spark, table, how)
    yield from _old_checkpoints(spark, target)
    if how.forget_letters_after is not None and target.decode is not None:
        yield from _forget_dead_letters(spark, DeadLetterTable(target.table), how)


def maintain_all(
    spark: SparkSession, settings: Settings, streams: Sequence[str], how: Maintenance
) -> Iterator[MaintenanceResult]:
    """The tables of these streams; where none is named those of all, and of the telemetry."""
    names = streams or list(settings.streams)
    # All faults of the configuration before the first step.
    for target in [t for name in names for t in targets_of(spark, settings, name, run=uuid.uuid4().hex)]:
        yield from maintain(spark, target, how)
    if not streams:
        yield from maintain_telemetry(spark, settings, how)


def maintain_telemetry(
    spark: SparkSession, settings: Settings, how: Maintenance
) -> Iterator[MaintenanceResult]:
    """The same for the metrics table and the table of breakers, to which small files are appended. Rows stay."""
    metrics = metrics_table_of(settings)
    for table in () if metrics is None else (metrics, metrics.breakers):
        if tables.describe(spark, table) is not None:
            yield _compact(spark, table)
            yield _vacuum(spark, table, how)


def _dead_letters_of(target: Target) -> tuple[TableRef, TableRef]:
    dead_letters = DeadLetterTable(target.table)
    return dead_letters.facts, dead_letters.statuses


def _closed_dates(target: Target, today: date) -> str | None:
    """A condition for the partitions of past COB dates, which receive no more records. None for a table that is
    not partitioned by them.
    """
    cob = target.stream.cob.column if target.stream.cob is not None else None
    partitioned = cob is not None and cob in target.destination.partition_columns
    return f"`{cob}` < DATE'{today.isoformat()}'" if partitioned else None


def _compact(spark: SparkSession, table: TableRef, where: str = "") -> MaintenanceResult:
    with commit_lock(table):
        found = (
            spark.sql(f"OPTIMIZE {table.sql}" + (f" WHERE {where}" if where else ""))
            .select("metrics.*")
            .first()
        )
    removed = int(found["numFilesRemoved"]) if found is not None else 0
    added = int(found["numFilesAdded"]) if found is not None else 0
    return _result(table, "compacted", removed, f"into {added} files" + (f", {where}" if where else ""))


def _vacuum(spark: SparkSession, table: TableRef, how: Maintenance) -> MaintenanceResult:
    dry = spark.sql(f"VACUUM {table.sql} RETAIN {how.retention_hours} HOURS DRY RUN").count()
    if dry:
        spark.sql(f"VACUUM {table.sql} RETAIN {how.retention_hours} HOURS")
    return _result(table, "vacuumed", dry, f"kept {how.retention_hours} h")


def _old_checkpoints(spark: SparkSession, target: Target) -> Iterator[MaintenanceResult]:
    """No start uses a checkpoint that the newest ledger commit does not name."""
    if tables.describe(spark, target.table) is None:
        return
    newest = read_state(log_of(spark, target.table), accept_emptied=True).newest
    if newest is None or not newest.checkpoint:
        return
    folder = target.checkpoint(newest.checkpoint).path.rpartition("/")[0]
    files = files_at(folder)
    seq = _seq_of(newest.checkpoint)
    for name in files.names(folder):
        # The checkpoint of a start in progress has a higher seq than the newest commit's.
        if (
            name != newest.checkpoint
            and _seq_of(name) is not None
            and (seq is None or (_seq_of(name) or 0) < seq)
        ):
            files.delete(f"{folder}/{name}")
            if name in files.names(folder):
                yield _result(
                    target.table, "checkpoint not removed", 0, f"{name}: see the rights of {folder}"
                )
            else:
                yield _result(target.table, "checkpoint removed", 1, name)


def _seq_of(checkpoint: str) -> int | None:
    """The seq in `{mode}-{seq}-{run}`."""
    parts = checkpoint.rsplit("-", 2)
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None


def _forget_dead_letters(
    spark: SparkSession, table: DeadLetterTable, how: Maintenance
) -> Iterator[MaintenanceResult]:
    """Deletes resolved and discarded dead letters whose last event is older, with their bytes and events."""
    assert how.forget_letters_after is not None
    if not table.exists(spark):
        return
    before = datetime.combine(how.today, datetime.min.time(), tzinfo=UTC) - how.forget_letters_after
    closed = [DeadLetterStatus.RESOLVED.value, DeadLetterStatus.DISCARDED.value]
    old = kept(
        table.dead_letters(spark)
        .where(F.col("status").isin(*closed) & (F.col("status_at") < F.lit(before)))
        .select(DEAD_LETTER_ID)
    )
    count = old.count()
    if count:
        table.forget(old)
    yield _result(table.facts, "dead letters forgotten", count, f"closed before {before:%Y-%m-%d}")


def _result(table: TableRef, what: str, files: int, detail: str) -> MaintenanceResult:
    done = MaintenanceResult(str(table), what, files, detail)
    log.info("maintained", **done.as_dict())
    return done
