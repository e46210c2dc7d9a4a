"""Rows of replayed records: own commits in a chain of their own, next to a running stream's."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.errors import RetriableError
from tidemark.contract.own_commit import CommitKind, OwnCommit
from tidemark.sink.append import Committed, write_own
from tidemark.sink.ledger import commits_since, find_token
from tidemark.sink.table_log import DeltaLog

_SEARCHED = 1000


def newest_replay_seq(spark: SparkSession, table: TableRef) -> int:
    """The newest seq of the replays' chain, 0 where the log's newest commits have none."""
    page = DeltaLog(spark, table)(_SEARCHED)
    return max(
        (e.own.seq for e in page.entries if e.own is not None and e.own.kind is CommitKind.REPLAY), default=0
    )


def not_in_table(rows: DataFrame, table: TableRef) -> DataFrame:
    """The rows whose coordinates the table does not have. Reads the files that cover their offsets.

    Records that other programs dead-lettered have no topic id: their topic's name stands for it.
    """
    span = rows.agg(F.min(records.OFFSET).alias("low"), F.max(records.OFFSET).alias("high")).first()
    if span is None or span["low"] is None:
        return rows
    there = rows.sparkSession.table(table.sql).where(
        F.col(records.OFFSET).between(int(span["low"]), int(span["high"]))
    )
    # A topic's name may look like an id, but neither has a colon.
    topic = F.coalesce(F.col(records.TOPIC_ID), F.concat(F.lit(":"), F.col(records.SOURCE_TOPIC)))
    identity = {"_topic": topic, "_partition": F.col(records.PARTITION), "_offset": F.col(records.OFFSET)}
    known = there.select(*[column.alias(name) for name, column in identity.items()])
    return rows.withColumns(identity).join(known, list(identity), "left_anti").select(*rows.columns)


def append_replayed(rows: DataFrame, table: TableRef, own: OwnCommit) -> Committed:
    """Append `rows`, which must not be read from the table any more, as the REPLAY commit `own`.

    It adds without reading, so it conflicts with no append of the stream, and the stream with none of it.
    Of two replays at once only one commits at a seq. Raises RetriableError for the other, and where the
    seq is not above one that the log has forgotten: then the table has to be looked into again.
    """
    found = write_own(rows, table, own, replay_written)
    if found is None:
        raise RetriableError(f"another replay of {table} committed at the same moment")
    return found


def replay_written(spark: SparkSession, table: TableRef, own: OwnCommit) -> Committed | None:
    """The REPLAY commit of this attempt, if it is in the log. Another run's is no reason to stop."""
    entry = find_token(commits_since(DeltaLog(spark, table), own.base), own.token)
    return Committed(entry.version, entry.rows_written, own) if entry is not None else None
