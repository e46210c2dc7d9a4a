"""Own commits by MERGE on real tables: what they insert, update, delete and read, and what they leave set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract.errors import Fenced, RetriableError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.sink import table as tables
from tidemark.sink.append import Committed, append
from tidemark.sink.merge import DELETES, PLACE, Entity, insert, upsert
from tidemark.sink.statements import Ranges
from tidemark.sink.table_log import DeltaLog

DDL = (
    "id INT, name STRING, changed INT, stream_topic_id STRING, stream_partition INT, stream_offset BIGINT,"
    " message_timestamp TIMESTAMP"
)
Version = tuple[int, str | None, int | None, int, int]
"""id, name (None: a tombstone), changed, partition, offset."""
ENTITY = Entity(("id",))
BY_CHANGE = Entity(("id",), "changed")


class Table:
    """A Delta table that ledger commits are made to, one seq after the other."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark, self.ref = spark, TableRef(path=path)
        schema = spark.createDataFrame([], DDL).schema
        tables.create(spark, self.ref, schema, Destination(bucket="/", path="x"))
        self.log = DeltaLog(spark, self.ref)

    def own(self, *, run: str = "run", seq: int | None = None, base: int | None = None) -> LedgerCommit:
        entries = self.log(1000).entries
        newest = max((e.ledger_commit.seq for e in entries if e.ledger_commit), default=0)
        seq = newest + 1 if seq is None else seq
        return LedgerCommit(
            kind=CommitKind.BATCH,
            stream="s",
            topic_id="topic",
            token=f"{run}/{seq}/1",
            seq=seq,
            base=entries[0].version if base is None else base,
            marks=Marks({0: seq}),
        )

    def rows(self, versions: Sequence[Version]) -> DataFrame:
        return self.spark.createDataFrame([(i, n, c, "topic", p, o, None) for i, n, c, p, o in versions], DDL)

    def insert(self, *versions: Version, ranges: Ranges, own: LedgerCommit | None = None) -> Committed:
        return insert(self.rows(versions), self.ref, own or self.own(), ranges)

    def upsert(self, *versions: Version, entity: Entity = ENTITY) -> Committed:
        ordered = [(i, n, None if n is None else c, p, o) for i, n, c, p, o in versions]
        place = "struct(stream_partition AS partition, stream_offset AS offset)"
        nested = self.rows(ordered).selectExpr(
            "struct(*) AS row", f"name IS NULL AS {DELETES}", f"{place} AS {PLACE}"
        )
        return upsert(nested, self.ref, self.own(), entity)

    def holds(self, *versions: Version) -> None:
        """These rows, every column of them, and no other."""
        there = self.spark.table(self.ref.sql)
        assert_df_equality(there, self.rows(versions), ignore_row_order=True, ignore_nullable=True)

    def content(self) -> list[tuple[int, str]]:
        return sorted((r["id"], r["name"]) for r in self.spark.table(self.ref.sql).collect())


@pytest.fixture
def table(spark: SparkSession, tmp: Callable[[str], str]) -> Table:
    return Table(spark, tmp("merged"))


def v(key: int, name: str | None, offset: int, changed: int | None = None, partition: int = 0) -> Version:
    return key, name, changed, partition, offset


def test_only_rows_with_absent_coordinates_are_inserted_when_a_batch_comes_again(
    table: Table,
) -> None:
    first = table.insert(v(1, "a", 0), v(2, "b", 1), ranges={0: (0, 2)})
    again = table.insert(v(1, "x", 0), v(2, "x", 1), v(3, "c", 2), ranges={0: (0, 3)})
    nothing = table.insert(v(3, "x", 2), ranges={0: (2, 3)})
    assert (first.rows, again.rows, nothing.rows) == (2, 1, 0)
    table.holds(v(1, "a", 0), v(2, "b", 1), v(3, "c", 2))
    newest = table.log(10).entries[0]
    assert newest.version == nothing.version
    assert newest.ledger_commit == nothing.ledger_commit


def test_only_files_that_the_ranges_overlap_are_read_when_a_batch_is_merged(table: Table) -> None:
    for start in (0, 100, 200):
        table.insert(*[v(o, "n", o) for o in range(start, start + 10)], ranges={0: (start, start + 10)})
    table.insert(*[v(o, "n", o, partition=1) for o in range(100, 110)], ranges={1: (100, 110)})
    in_range = table.spark.table(table.ref.sql).where(
        "stream_partition = 0 AND stream_offset BETWEEN 100 AND 109"
    )
    needed = {r[0] for r in in_range.selectExpr("_metadata.file_name").distinct().collect()}
    files = list(Path(str(table.ref.path)).glob("part-*.parquet"))
    unread = [f for f in files if f.name not in needed]
    assert unread, "all rows lie in one file"
    for file in unread:
        file.unlink()

    merged = table.insert(v(109, "n", 109), v(110, "n", 110), ranges={0: (105, 111)})

    assert merged.rows == 1


@pytest.mark.guarantee("case: merge-04", "case: merge-05")
def test_the_session_carries_no_transaction_when_a_merge_is_over(table: Table) -> None:
    table.insert(v(1, "a", 0), ranges={0: (0, 1)})
    table.rows([v(9, "by hand", 9)]).write.format("delta").mode("append").save(str(table.ref.path))
    table.holds(v(1, "a", 0), v(9, "by hand", 9))
    assert table.log(1).entries[0].ledger_commit is None
    with pytest.raises(Exception, match="no_such_column"):
        insert(table.rows([]).selectExpr("no_such_column"), table.ref, table.own(), {0: (0, 1)})
    names = ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata")
    assert [table.spark.conf.get(f"spark.databricks.delta.{n}", None) for n in names] == [None] * 3


@pytest.mark.guarantee("case: merge-05", "case: checkpoint-01")
def test_nothing_is_written_when_the_seq_is_taken(table: Table) -> None:
    base = table.log(1).entries[0].version
    append(table.rows([v(1, "a", 0)]), table.ref, table.own(run="another", seq=1, base=base))
    with pytest.raises(Fenced, match="another"):
        table.insert(v(2, "b", 1), ranges={0: (1, 2)}, own=table.own(seq=1, base=base))
    with pytest.raises(RetriableError, match="skipped"):
        table.insert(v(2, "b", 1), ranges={0: (1, 2)}, own=table.own(seq=1))
    table.holds(v(1, "a", 0))


@pytest.mark.guarantee("case: merge-01", "case: merge-02")
def test_the_last_version_wins_when_a_batch_has_many_of_one_entity(table: Table) -> None:
    table.upsert(v(1, "b", 0), v(1, "c", 1), v(2, "x", 2), v(2, None, 3), v(3, None, 4), v(3, "y", 5))
    table.holds(v(1, "c", 1), v(3, "y", 5))
    table.upsert(v(1, "d", 6), v(3, None, 7), v(4, "z", 8))
    table.holds(v(1, "d", 6), v(4, "z", 8))
    assert table.upsert(v(1, "d", 6), v(3, None, 7), v(4, "z", 8)).rows == 0
    table.holds(v(1, "d", 6), v(4, "z", 8))
    table.upsert(v(4, "b", 9), v(4, "c", 10))
    table.holds(v(1, "d", 6), v(4, "c", 10))


def test_an_older_version_changes_nothing_when_it_arrives_later(table: Table) -> None:
    table.upsert(v(1, "new", 5), v(2, "new", 6))
    table.upsert(v(1, "old", 3), v(2, None, 4))
    table.holds(v(1, "new", 5), v(2, "new", 6))


ORDERED: list[tuple[list[list[Version]], list[str]]] = [
    ([[v(1, "new", 0, 10), v(1, "old", 1, 9)]], ["new"]),
    ([[v(2, "new", 0, 10)], [v(2, "old", 1, 9)]], ["new"]),
    ([[v(3, "a", 0, 10)], [v(3, "b", 1, 10)]], ["b"]),
    ([[v(4, "new", 0, 10), v(4, "old", 1, 9), v(4, None, 2)]], []),
    ([[v(5, "new", 0, 10)], [v(5, None, 1)]], []),
    ([[v(6, "new", 0, 10)], [v(6, "old", 1, 9), v(6, None, 2)]], []),
    ([[v(7, None, 0), v(7, "again", 1, 1)]], ["again"]),
    ([[v(8, "a", 0, 10)], [v(8, "unordered", 1, None)]], ["a"]),
    ([[v(9, "unordered", 0, None)], [v(9, "a", 1, 1)]], ["a"]),
]
"""Per entity: its versions in the first batch and in the second, and the name that is left in the end."""


@pytest.mark.guarantee("case: merge-01")
def test_the_order_column_decides_before_the_offset_when_there_is_one(table: Table) -> None:
    for turn in (0, 1):
        batch = [each for batches, _ in ORDERED for versions in batches[turn : turn + 1] for each in versions]
        table.upsert(*batch, entity=BY_CHANGE)
    expected = [(number, name) for number, (_, left) in enumerate(ORDERED, start=1) for name in left]
    assert table.content() == expected
