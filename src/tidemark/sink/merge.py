"""Ledger commits by MERGE: insert-only by coordinates, or one row for each entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from tidemark.contract.errors import NonRetriableError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.platform.capabilities import takes_settings
from tidemark.platform.commit_lock import commit_lock
from tidemark.sink.append import Arrived, Committed, make_commit, written_in
from tidemark.sink.replay_commit import replay_written_in
from tidemark.sink.statements import Ranges, column_of, merge_into, quoted, within

DELETES = "deletes"
"""BOOLEAN column of an upsert's source: the record is a tombstone of the entity."""

PLACE = "place"
"""STRUCT<partition, offset> column of an upsert's source: the version's place in the topic."""

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True)
class Entity:
    """The columns that identify an entity, and the column that orders its versions, before their place."""

    keys: tuple[str, ...]
    order_by: str | None = None


def insert(rows: DataFrame, table: TableRef, ledger_commit: LedgerCommit, ranges: Ranges) -> Committed:
    """Insert those of `rows` whose coordinates the table does not have, as this ledger commit.

    `ranges` covers every row's offset; files of other offsets are not read. No two rows have the same
    coordinates. The commit is made even when nothing is inserted. Guarantees and errors of `sink.append.append`.
    """
    same = within(ledger_commit.topic_id, ranges, of=table.sql) & _same(table, records.COORDINATES)
    merge = merge_into(rows, table, same).whenNotMatched().insertAll()
    return _commit(merge.merge, rows.sparkSession, table, ledger_commit)


def correct(
    rows: DataFrame, table: TableRef, ledger_commit: LedgerCommit, ranges: Ranges, *, insert: bool = True
) -> Committed:
    """Update the rows with the coordinates of `rows` where they differ, and `insert` absent ones, as this REPLAY
    commit. `Committed.rows` counts inserts only.

    Reads the files of `ranges` only. Delta may refuse it because of a simultaneous append of the stream; it may
    be tried again then. Raises RetriableError if another replay committed first.
    """
    columns = [c for c in rows.columns if c not in records.COORDINATES]
    changed = reduce(or_, [~column_of(table, c).eqNullSafe(F.col(f"s.{quoted(c)}")) for c in columns])
    same = within(ledger_commit.topic_id, ranges, of=table.sql) & _same(table, records.COORDINATES)
    merge = merge_into(rows, table, same).whenMatched(changed).updateAll()
    if insert:
        merge = merge.whenNotMatched().insertAll()
    return _commit(merge.merge, rows.sparkSession, table, ledger_commit, replay_written_in)


def upsert(versions: DataFrame, table: TableRef, ledger_commit: LedgerCommit, entity: Entity) -> Committed:
    """Bring each entity of `versions` to its newest version, as this ledger commit.

    In: `row` STRUCT of the table's columns, `deletes` BOOLEAN and `place`. The highest `order_by` wins, then
    the highest place; a tombstone, which has no `order_by`, follows the record before it. A version older than
    the table's row changes nothing. A NULL in `keys` is a value like any other. `Committed.rows` counts inserts
    only. Guarantees and errors of `sink.append.append`.
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
    """One row for each entity: MERGE fails where two rows of its source match one of the target's."""
    keys = [F.col(f"row.{quoted(k)}") for k in entity.keys]
    place = [F.col(f"{PLACE}.partition"), F.col(f"{PLACE}.offset")]
    order = place
    if entity.order_by is not None:
        # A tombstone has no value to be ordered by: it takes the highest value before it.
        before = Window.partitionBy(*keys).orderBy(*place).rowsBetween(Window.unboundedPreceding, 0)
        value = F.col(f"row.{quoted(entity.order_by)}")
        versions = versions.withColumn(
            "_order", F.when(F.col(DELETES), F.max(value).over(before)).otherwise(value)
        )
        order = [F.col("_order"), *place]
    newest_first = Window.partitionBy(*keys).orderBy(*[o.desc_nulls_last() for o in order])
    ranked = versions.withColumn("_rank", F.row_number().over(newest_first))
    return ranked.where(F.col("_rank") == 1).drop("_rank")


def _newer_than_target(table: TableRef, entity: Entity) -> Column:
    """By `order_by`, then by place; a tombstone by place alone, as it has no value of `order_by`. Records of a
    topic that was created again count as newer, as its offsets start again.
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
    arrived: Arrived = written_in,
) -> Committed:
    if not takes_settings(spark):
        raise NonRetriableError(f"this compute cannot run MERGE: {NEEDS[Mode.MERGE]}", CLASSIC_OR_NATIVE)

    def merge() -> None:
        with commit_lock(table), _transaction(spark, ledger_commit):
            execute()

    return make_commit(merge, spark, table, ledger_commit, arrived)


@contextmanager
def _transaction(spark: SparkSession, ledger_commit: LedgerCommit) -> Iterator[None]:
    """Sets the transaction of a MERGE, which takes it from the session alone. Left set, the next write would be
    skipped without an error, and an OPTIMIZE would carry the marks.
    """
    options = {
        _TXN_APP: ledger_commit.txn_app,
        _TXN_VERSION: str(ledger_commit.seq),
        _METADATA: ledger_commit.to_json(),
    }
    try:
        for name, value in options.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name in options:
            spark.conf.unset(name)
