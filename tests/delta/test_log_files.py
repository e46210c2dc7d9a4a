"""A table's log, read from its files: what Spark's history says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidemark.config.destination import TableRef
from tidemark.contract.errors import LedgerError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.platform.files import LocalFiles
from tidemark.sink.append import append
from tidemark.sink.log_files import log_of, logs_in
from tidemark.sink.table_log import DeltaLog, LogEntry, LogPage, ReadLog


def summary_of_error(page: LogPage) -> tuple[list[LogEntry], bool]:
    """What the ledger reads of a page: Spark's history times a commit by its file, and lists nulls."""
    plain = [
        replace(e, timestamp=None, parameters={k: v for k, v in e.parameters.items() if v is not None})
        for e in page.entries
    ]
    return plain, page.complete


def outcome(log: ReadLog) -> LogPage | str:
    try:
        return log(4)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def test_the_log_is_the_same_from_its_files_and_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = TableRef(path=str(tmp_path / "t"))
    assert logs_in(lambda _: LocalFiles())(table) is None
    for seq in (1, 2):
        own = LedgerCommit(CommitKind.BATCH, "s", "id", f"run/{seq}/1", seq, seq - 2, Marks({0: seq}))
        append(spark.range(3), table, own)
    spark.sql(f"DELETE FROM {table.sql} WHERE id = 1")
    spark.sql(f"RESTORE {table.sql} TO VERSION AS OF 0")
    log = logs_in(lambda _: LocalFiles())(table)
    assert log is not None
    for limit in (2, 4, 5):
        assert summary_of_error(log(limit)) == summary_of_error(DeltaLog(spark, table)(limit))


def test_a_commit_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "t" / "_delta_log"
    folder.mkdir(parents=True)
    torn = folder / f"{0:020}.json"
    torn.write_text('{"commitInfo":{"operation":"WR')
    log = logs_in(lambda _: LocalFiles())(TableRef(path=str(tmp_path / "t")))
    assert log is not None
    with pytest.raises(LedgerError, match=torn.name):
        log(1)


@pytest.mark.parametrize("newest", ["", '{"commitInfo":{"operation":"WR', "{}"])
def test_a_log_that_is_not_as_a_writer_leaves_it_is_read_by_spark(
    spark: SparkSession, tmp_path: Path, newest: str
) -> None:
    """Delta passes over an empty newest commit, refuses a torn one, and lists one without information."""
    table = TableRef(path=str(tmp_path / "t"))
    append(spark.range(3), table, LedgerCommit(CommitKind.BATCH, "s", "id", "run/1/1", 1, -1, Marks({0: 1})))
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").write_text(newest)
    assert outcome(log_of(spark, table)) == outcome(DeltaLog(spark, table))


def test_the_log_of_a_table_that_is_gone_is_refused_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException):
        log_of(spark, TableRef(path=str(tmp_path / "never")))(1)


def test_a_log_with_a_gap_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = TableRef(path=str(tmp_path / "t"))
    for seq in (1, 2, 3):
        own = LedgerCommit(CommitKind.BATCH, "s", "id", f"run/{seq}/1", seq, seq - 2, Marks({0: seq}))
        append(spark.range(3), table, own)
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").unlink()
    assert outcome(log_of(spark, table)) == outcome(DeltaLog(spark, table))
