"""A write that failed is judged by what the log says of it, not by the error that had the log looked into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.config.destination import TableRef
from tidemark.contract.errors import RetriableError
from tidemark.contract.failures import Action
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.resilience.classification import Classifier
from tidemark.sink import append, merge
from tidemark.sink.append import Arrived, Committed
from tidemark.sink.table_log import LogPage

OWN = LedgerCommit(CommitKind.BATCH, "events", "id", "run/1/1", seq=1, base=0)


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the log says is up to each test's `arrived`."""
    monkeypatch.setattr(append, "commits_since", lambda *_: LogPage([], complete=True))


class ConcurrentTransactionException(Exception):
    """As Delta's: another transaction of the same application id committed first."""


def refused(*_: object) -> None:
    raise ConcurrentTransactionException("concurrent")


def appended(table: TableRef, arrived: Arrived) -> Committed | None:
    writer: Any = SimpleNamespace(save=refused)
    writer.format = writer.mode = writer.option = lambda *_: writer
    rows: Any = SimpleNamespace(sparkSession=None, write=writer)
    return append.append(rows, table, OWN, arrived)


def merged(table: TableRef, arrived: Arrived) -> Committed | None:
    spark: Any = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None, unset=lambda _: None))
    return merge._commit(refused, spark, table, OWN, arrived)


WAYS = pytest.mark.parametrize("write", [appended, merged])
Write = Callable[[TableRef, Arrived], Committed | None]


@WAYS
@pytest.mark.parametrize("error", [RetriableError("this run itself committed"), ConnectionError("gone")])
def test_no_other_writer_is_seen_when_the_log_says_otherwise_or_cannot_be_read(
    write: Write, error: Exception, tmp_path: Path
) -> None:
    def arrived(*_: object) -> Committed | None:
        raise error

    with pytest.raises(type(error)) as caught:
        write(TableRef(path=str(tmp_path)), arrived)
    assert Classifier().classify(caught.value).action is Action.RETRY


@WAYS
def test_the_error_of_the_write_is_raised_when_the_log_knows_nothing_of_it(
    write: Write, tmp_path: Path
) -> None:
    with pytest.raises(ConcurrentTransactionException):
        write(TableRef(path=str(tmp_path)), lambda *_: None)


@WAYS
def test_the_write_counts_when_the_log_has_it_whatever_was_answered(write: Write, tmp_path: Path) -> None:
    there = Committed(3, 1, OWN)
    assert write(TableRef(path=str(tmp_path)), lambda *_: there) is there
