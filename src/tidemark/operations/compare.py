"""Compares two tables of one topic record by record, as for a blue/green deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.errors import LedgerError, UsageError
from tidemark.contract.marks import Marks
from tidemark.platform.kept_rows import kept
from tidemark.sink import table as tables
from tidemark.sink.ledger import read_state
from tidemark.sink.log_files import log_of
from tidemark.sink.statements import quoted, within
from tidemark.sink.table_log import as_of_now

MOST_EXAMPLES = 20


@dataclass(frozen=True)
class Compared:
    """The differences of two tables. Counts are of coordinates. `below`: records of the present topic from these
    offsets on were left out, as one table may be behind; None where all were compared.

    `doubled`: rows beyond the first of their coordinates, in either table. `left_out`: columns of one table
    only. `examples`: coordinates of differences, at most 20 of each kind.
    """

    left: str
    right: str
    same: int
    different: int
    only_left: int
    only_right: int
    doubled: int
    left_out: tuple[str, ...]
    examples: dict[str, list[tuple[str, int, int]]]
    below: dict[int, int] | None

    @property
    def equal(self) -> bool:
        return not (self.different or self.only_left or self.only_right or self.doubled)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "equal": self.equal}


def compare(
    spark: SparkSession,
    left: TableRef,
    right: TableRef,
    *,
    ignore: Sequence[str] = (),
    everything: bool = False,
) -> Compared:
    """Compare by coordinates, and rows by a SHA-256 over the columns of both tables, without `ignore`.

    Where both tables have marks of the same topic, of its rows only those below both are compared, as one table
    may be behind, and all rows of other topics; `everything` compares all rows. Payloads do not leave Spark.

    Raises UsageError for a table that is absent or has no coordinates.
    """
    columns = [_columns(spark, left), _columns(spark, right)]
    common = [c for c in columns[0] if c in columns[1] and c not in (*records.COORDINATES, *ignore)]
    apart = sorted({*columns[0]} ^ {*columns[1]})
    topic, below = (None, None) if everything else _both_have(spark, left, right)
    sides = [_hashed(spark, table, common, topic, below) for table in (left, right)]
    joined = kept(
        sides[0]
        .alias("l")
        .join(sides[1].alias("r"), _same_place(), "full")
        .select(*_place(), _difference().alias("difference"), _surplus().alias("surplus"))
    )
    counts = {
        r["difference"]: r["number"]
        for r in joined.groupBy("difference").agg(F.count("*").alias("number")).collect()
    }
    doubled = joined.agg(F.coalesce(F.sum("surplus"), F.lit(0)).alias("doubled")).first()
    assert doubled is not None
    return Compared(
        left=str(left),
        right=str(right),
        same=counts.get("same", 0),
        different=counts.get("different", 0),
        only_left=counts.get("only left", 0),
        only_right=counts.get("only right", 0),
        doubled=doubled["doubled"],
        left_out=tuple(apart),
        examples=_examples(joined, [kind for kind in counts if kind != "same"]),
        below=None if below is None else dict(below),
    )


def _columns(spark: SparkSession, table: TableRef) -> list[str]:
    info = tables.describe(spark, table)
    if info is None:
        raise UsageError(f"there is no table {table}", "name a stream, a folder or a catalog name")
    missing = [c for c in records.COORDINATES if c not in info.schema.names]
    if missing:
        raise UsageError(f"{table} has no {', '.join(missing)}: its rows cannot be distinguished")
    return list(info.schema.names)


def _both_have(spark: SparkSession, left: TableRef, right: TableRef) -> tuple[str | None, Marks | None]:
    """The topic id and the lower marks of the two, or None where they are not of one topic."""
    states = []
    for table in (left, right):
        try:
            states.append(read_state(log_of(spark, table)))
        except LedgerError:
            return None, None
    one, other = (s.newest for s in states)
    if one is None or other is None or one.topic_id != other.topic_id:
        return None, None
    return one.topic_id, states[0].marks.lowest(states[1].marks)


def _hashed(
    spark: SparkSession, table: TableRef, columns: list[str], topic: str | None, below: Marks | None
) -> DataFrame:
    rows = as_of_now(spark, table).alias("t")
    if topic is not None and below is not None:
        other = ~F.col(f"t.{records.TOPIC_ID}").eqNullSafe(topic)
        rows = rows.where(other | within(topic, {p: (0, end) for p, end in below.items()}))
    content = F.to_json(F.struct(*[F.col(quoted(c)) for c in columns]), {"ignoreNullFields": "false"})
    hashed = rows.select(*records.COORDINATES, F.sha2(content, 256).alias("hash"))
    return hashed.groupBy(*records.COORDINATES).agg(
        F.array_sort(F.collect_set("hash")).alias("hashes"), F.count(F.lit(1)).alias("rows")
    )


def _same_place() -> Column:
    """Rows of replayed dead letters of other programs have no topic id."""
    return reduce(Column.__and__, [F.col(f"l.{c}").eqNullSafe(F.col(f"r.{c}")) for c in records.COORDINATES])


def _place() -> list[Column]:
    return [F.coalesce(f"l.{c}", f"r.{c}").alias(c) for c in records.COORDINATES]


def _difference() -> Column:
    return (
        F.when(F.col("l.rows").isNull(), F.lit("only right"))
        .when(F.col("r.rows").isNull(), F.lit("only left"))
        .when(F.col("l.hashes") == F.col("r.hashes"), F.lit("same"))
        .otherwise(F.lit("different"))
    )


def _surplus() -> Column:
    return F.coalesce(F.col("l.rows") - 1, F.lit(0)) + F.coalesce(F.col("r.rows") - 1, F.lit(0))


def _examples(joined: DataFrame, kinds: list[str]) -> dict[str, list[tuple[str, int, int]]]:
    found = {}
    for kind in sorted(kinds):
        rows = (
            joined.where(F.col("difference") == kind)
            .orderBy(*records.COORDINATES)
            .limit(MOST_EXAMPLES)
            .collect()
        )
        found[kind] = [(r[records.TOPIC_ID], r[records.PARTITION], r[records.OFFSET]) for r in rows]
    return found
