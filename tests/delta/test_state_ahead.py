"""A table's state that is computed before a commit needs it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from tidemark.config.destination import TableRef
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import StreamStarted
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.ingest.state_ahead import StateAhead
from tidemark.sink.append import append

_LONGEST_S = 60.0


@dataclass
class Log:
    """A table whose commits are counted in Spark jobs."""

    spark: SparkSession
    table: TableRef
    seq: int = 0

    def jobs(self) -> int:
        return len(self.spark.sparkContext.statusTracker().getJobIdsForGroup())

    def jobs_of_a_commit(self) -> int:
        before, self.seq = self.jobs(), self.seq + 1
        token = f"run/{self.seq}/1"
        marks = Marks({0: self.seq})
        commit = LedgerCommit(CommitKind.BATCH, "s", "id", token, self.seq, self.seq - 2, marks)
        append(self.spark.range(3), self.table, commit)
        return self.jobs() - before

    def wait_for_more_jobs(self, jobs: int) -> None:
        deadline = time.monotonic() + _LONGEST_S
        while self.jobs() == jobs:
            assert time.monotonic() < deadline, "no job has run"
            time.sleep(0.02)


def target(name: str, table: TableRef) -> Any:
    """What is asked of a stream's target."""
    return SimpleNamespace(name=name, table=table)


def started(stream: str) -> StreamStarted:
    return StreamStarted(stream, "t", "id", "s", Marks({}), fresh=True)


def landed(stream: str) -> BatchReport:
    return BatchReport(stream, 0, 3, 3, 0, 0, 0, 0, version=1, marks=Marks({0: 1}))


def test_a_commit_runs_fewer_jobs_when_the_state_was_computed_ahead(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log(spark, TableRef(path=str(tmp_path / "t")))
    log.jobs_of_a_commit()
    alone = log.jobs_of_a_commit()
    for event in (started("s"), landed("s")):
        with StateAhead(spark, [target("s", log.table)]) as ahead:
            before = log.jobs()
            ahead.emit(event)
            log.wait_for_more_jobs(before)
        assert log.jobs_of_a_commit() < alone


def test_the_other_tables_go_on_when_the_state_of_one_cannot_be_computed(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log(spark, TableRef(path=str(tmp_path / "t")))
    log.jobs_of_a_commit()
    before, away = log.jobs(), TableRef(path=str(tmp_path / "away"))
    with StateAhead(spark, [target("away", away), target("s", log.table)]) as ahead:
        ahead.emit(landed("away"))
        ahead.emit(landed("s"))
        log.wait_for_more_jobs(before)
