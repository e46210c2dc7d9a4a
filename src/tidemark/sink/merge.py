"""Own commits by MERGE: insert-only by coordinates, or one row an entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.config.serverless import CLASSIC_OR_NATIVE, NEEDS
from tidemark.config.stream import Mode
from tidemark.contract import records
from tidemark.contract.errors import NonRetriableError, RetriableError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.platform.capabilities import takes_settings
from tidemark.platform.commit_lock import commit_lock
from tidemark.sink.append import Arrived, Committed, written
from tidemark.sink.replay_commit import replay_written
from tidemark.sink.statements import column_of, merge_into, quoted

Ranges = Mapping[int, tuple[int, int]]
"""Offsets [start, end) of each partition."""

DELETES = "deletes"
"""BOOLEAN beside `row` in the source of an upsert: the record is a tombstone of the entity."""

PLACE = "place"
"""STRUCT<partition, offset> beside them: where in the topic the version belongs."""

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class Entity:
    """What names an entity, and what orders its versions: a column, with the offset behind it."""

    keys: tuple[str, ...]
    order_by: str | None = None


def insert(rows: DataFrame, table: TableRef, ledger_commit: LedgerCommit, ranges: Ranges) -> Committed:
    """Insert those of `rows` whose coordinates the table does not have, as the ledger commit `own`.

    `ranges` covers every row's offset; the files of other offsets are not read. Contract and errors are
    those of `sink.append.append`; made even when nothing is inserted. Two of `rows` never have the same
    coordinates.
    """
    same = within(ledger_commit.topic_id, ranges, of=table.sql) & _same(table, records.COORDINATES)
    merge = merge_into(rows, table, same).whenNotMatched().insertAll()
    return _commit(merge.merge, rows.sparkSession, table, ledger_commit)


def correct(rows: DataFrame, table: TableRef, ledger_commit: LedgerCommit, ranges: Ranges) -> Committed:
    """Bring the rows of these coordinates to what `rows` says, and insert those that are not there, as the
    REPLAY commit `own`. What is the same already is not written. `Committed.rows` counts inserts only.

    Reads the files of `ranges` only; an append of the stream at the same moment can still make Delta refuse
    it, and it may be tried again then. Raises RetriableError if another replay committed first.
    """
    columns = [c for c in rows.columns if c not in records.COORDINATES]
    changed = reduce(or_, [~column_of(table, c).eqNullSafe(F.col(f"s.{quoted(c)}")) for c in columns])
    same = within(ledger_commit.topic_id, ranges, of=table.sql) & _same(table, records.COORDINATES)
    merge = merge_into(rows, table, same).whenMatched(changed).updateAll().whenNotMatched().insertAll()
    return _commit(merge.merge, rows.sparkSession, table, ledger_commit, replay_written)


def upsert(versions: DataFrame, table: TableRef, ledger_commit: LedgerCommit, entity: Entity) -> Committed:
    """Bring each entity of `versions` to its newest version, as the ledger commit `own`.

    In: `row` STRUCT of the table's columns, `deletes` BOOLEAN and `place`. The highest `order_by` wins, then
    the highest place; a tombstone, which has no `order_by`, follows the record before it. Older than what
    the table holds changes nothing. A NULL in `keys` is a value like any other. `Committed.rows` counts
    inserts only. Contract and errors are those of `sink.append.append`.
    """
    newest = newest_versions(versions, entity)
    spark = versions.sparkSession
    newer = _newer_than_target(table, entity)
    columns = versions.select("row.*").columns
    values = {quoted(c): F.col(f"s.row.{quoted(c)}") for c in columns}
    same = reduce(and_, [column_of(table, k).eqNullSafe(F.col(f"s.row.{quoted(k)}")) for k in entity.keys])
    deletes = F.col(f"s.{DELETES}")
    merge = (
        merge_into(newest, table, same)
        .whenMatched(deletes & newer)
        .delete()
        .whenMatched(~deletes & newer)
        .update(values)
        .whenNotMatched(~deletes)
        .insert(values)
    )
    return _commit(merge.merge, spark, table, ledger_commit)


def newest_versions(versions: DataFrame, entity: Entity) -> DataFrame:
    """One row an entity: MERGE fails where two rows of its source match one of the target's."""
    keys = [F.col(f"row.{quoted(k)}") for k in entity.keys]
    place = [F.col(f"{PLACE}.partition"), F.col(f"{PLACE}.offset")]
    order = place
    if entity.order_by is not None:
        # A tombstone has no value to be ordered by: it takes the highest that came before it.
        before = Window.partitionBy(*keys).orderBy(*place).rowsBetween(Window.unboundedPreceding, 0)
        value = F.col(f"row.{quoted(entity.order_by)}")
        versions = versions.withColumn(
            "_order", F.when(F.col(DELETES), F.max(value).over(before)).otherwise(value)
        )
        order = [F.col("_order"), *place]
    newest_first = Window.partitionBy(*keys).orderBy(*[o.desc_nulls_last() for o in order])
    ranked = versions.withColumn("_rank", F.row_number().over(newest_first))
    return ranked.where(F.col("_rank") == 1).drop("_rank")


def within(topic_id: str, ranges: Ranges, *, of: str = "t") -> Column:
    """Literal bounds on the coordinates of the table `of`, by which Delta leaves files out."""
    of_topic = F.col(f"{of}.{records.TOPIC_ID}") == topic_id
    partition, offset = F.col(f"{of}.{records.PARTITION}"), F.col(f"{of}.{records.OFFSET}")
    if not ranges:
        return of_topic & F.lit(False)
    return of_topic & _any_of(
        [(partition == p) & (offset >= start) & (offset < end) for p, (start, end) in ranges.items()]
    )


def _any_of(conditions: list[Column]) -> Column:
    # Halves, not a chain: thousands of partitions would nest too deep for the analyser.
    if len(conditions) <= 2:
        return reduce(or_, conditions)
    middle = len(conditions) // 2
    return _any_of(conditions[:middle]) | _any_of(conditions[middle:])


def _newer_than_target(table: TableRef, entity: Entity) -> Column:
    """By `order_by`, then by place; a tombstone by place alone, as it has no value to be ordered by. A topic
    that was created again counts as later: its offsets begin anew.
    """

    def of(side: str, name: str) -> Column:
        return F.col(f"s.row.{quoted(name)}") if side == "s" else column_of(table, name)

    topic = of("s", records.TOPIC_ID) != of("t", records.TOPIC_ID)
    place_s = F.struct(F.col(f"s.{PLACE}.partition"), F.col(f"s.{PLACE}.offset"))
    place_t = F.struct(of("t", records.PARTITION).alias("partition"), of("t", records.OFFSET).alias("offset"))
    later = topic | (place_s > place_t)
    if entity.order_by is None:
        return F.coalesce(later, F.lit(True))
    mine = F.col("s._order")
    theirs = of("t", entity.order_by)
    return (
        F.when(F.col(f"s.{DELETES}"), F.coalesce(later, F.lit(True)))
        .when(mine.isNull() & theirs.isNotNull(), F.lit(False))
        .when(theirs.isNull() & mine.isNotNull(), F.lit(True))
        .when(mine.eqNullSafe(theirs), F.coalesce(later, F.lit(True)))
        .otherwise(mine > theirs)
    )


def _same(table: TableRef, columns: tuple[str, ...]) -> Column:
    return reduce(and_, [column_of(table, c) == F.col(f"s.{c}") for c in columns])


def _commit(
    execute: Callable[[], object],
    spark: SparkSession,
    table: TableRef,
    ledger_commit: LedgerCommit,
    arrived: Arrived = written,
) -> Committed:
    failure: Exception | None = None
    with commit_lock(table), _as_ledger_commit(spark, ledger_commit):
        try:
            execute()
        except Exception as error:
            failure = error
    # Outside the handler: what the log says must not be taken for a consequence of the failure.
    found = arrived(spark, table, ledger_commit)
    if found is None and failure is not None:
        raise failure
    if found is None:
        raise RetriableError(
            f"the merge of {ledger_commit.token} into {table} was skipped: seq {ledger_commit.seq} is taken already"
        )
    return found


@contextmanager
def _as_ledger_commit(spark: SparkSession, ledger_commit: LedgerCommit) -> Iterator[None]:
    """MERGE takes its transaction from the session alone. Left set, the next write would be skipped in
    silence, and an OPTIMIZE would carry the marks.
    """
    options = {
        _TXN_APP: ledger_commit.txn_app,
        _TXN_VERSION: str(ledger_commit.seq),
        _METADATA: ledger_commit.to_json(),
    }
    if not takes_settings(spark):
        raise NonRetriableError(f"this compute runs no MERGE of ours: {NEEDS[Mode.MERGE]}", CLASSIC_OR_NATIVE)
    try:
        for name, value in options.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name in options:
            spark.conf.unset(name)
