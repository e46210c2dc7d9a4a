"""On a local disk each commit to a table of dead letters waits for the table's lock: others commit to it too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.contract.dead_letters import DEAD_LETTER_DDL, DEAD_LETTER_ID, DeadLetterStatus
from tidemark.contract.errors import Locked, RetriableError
from tidemark.dead_letters.columns import schema_of
from tidemark.dead_letters.dlq_table.table import DeadLetterTable, event
from tidemark.platform import commit_lock as lock
from tidemark.platform.commit_lock import commit_lock
from tidemark.sink import table as tables

Write = Callable[[DeadLetterTable, DataFrame], Any]


def one_dead_letter(spark: SparkSession) -> DataFrame:
    fixed = {DEAD_LETTER_ID: "a", "failed_at": datetime(2026, 3, 29, 1, 30, tzinfo=UTC)}
    schema = schema_of(DEAD_LETTER_DDL)
    values = {
        field.name: fixed.get(field.name, 7 if isinstance(field.dataType, T.NumericType) else None)
        for field in schema.fields
    }
    loose = T.StructType([T.StructField(f.name, f.dataType) for f in schema.fields])
    rows = spark.createDataFrame([tuple(values.values())], loose)
    return rows.select(
        *(F.coalesce(F.col(f.name), F.lit("").cast(f.dataType)).alias(f.name) if not f.nullable else f.name
          for f in schema.fields)
    )  # fmt: skip


def noted(table: DeadLetterTable, rows: DataFrame) -> None:
    table.note(
        event(table.dead_letters(rows.sparkSession), DeadLetterStatus.DISCARDED, by="me", note=F.lit(""))
    )


@pytest.mark.parametrize(
    ("write", "locked"),
    [
        (lambda table, rows: table.merge(rows), "facts"),
        (noted, "statuses"),
        (lambda table, rows: table.forget(rows.select(DEAD_LETTER_ID)), "facts"),
        (lambda table, rows: table.forget(rows.select(DEAD_LETTER_ID)), "statuses"),
    ],
    ids=["merge", "note", "forget-dead-letters", "forget-statuses"],
)
def test_no_dead_letter_changes_while_another_process_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, locked: str
) -> None:
    table = DeadLetterTable(TableRef(path=str(tmp_path / "events")))
    table.create(spark)
    rows = one_dead_letter(spark)
    held: TableRef = getattr(table, locked)
    monkeypatch.setattr(lock, "LONGEST_WAIT_S", 0.2)
    with commit_lock(held), pytest.raises(Locked, match="another writer holds"):
        write(table, rows)
    write(table, rows)


def test_no_column_is_added_while_another_process_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, old = TableRef(path=str(tmp_path / "events")), T.StructType([T.StructField("id", T.LongType())])
    spark.createDataFrame([], old).write.format("delta").save(table.path)
    new = T.StructType([*old.fields, T.StructField("note", T.StringType())])
    monkeypatch.setattr(lock, "LONGEST_WAIT_S", 0.2)

    def evolve() -> None:
        info = tables.describe(spark, table)
        assert info is not None
        tables.check_schema(spark, table, info, new, evolve=True)

    with commit_lock(table), pytest.raises(Locked, match="another writer holds"):
        evolve()
    evolve()
    assert spark.table(table.sql).columns == ["id", "note"]


def test_statuses_are_there_where_dead_letters_are_when_a_writer_stops_between(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeadLetterTable(TableRef(path=str(tmp_path / "events")))
    create, made = tables.create, []

    def stops_after_one(spark: SparkSession, of: TableRef, *rest: Any) -> tables.TableInfo:
        if made:
            raise RetriableError("stopped between the two")
        made.append(of)
        return create(spark, of, *rest)

    monkeypatch.setattr(tables, "create", stops_after_one)
    with pytest.raises(RetriableError, match="stopped between"):
        table.create(spark)
    assert not table.exists(spark)
    monkeypatch.undo()
    table.create(spark)
    assert table.exists(spark)
    assert table.dead_letters(spark).count() == 0
