"""One ledger commit: a Delta append that is a compare-and-set on the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.contract.errors import Fenced, LedgerError, RestartStream, RetriableError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.platform.local_rows import no_rows
from tidemark.sink.ledger import (
    LedgerState,
    commits_since,
    find_token,
    foreign_commit,
    newest_replay_seq,
    restored_since,
)
from tidemark.sink.lineage import is_chained, refuse_emptied
from tidemark.sink.log_files import log_of
from tidemark.sink.statements import save_into
from tidemark.sink.table_log import LogPage


@dataclass(frozen=True)
class Committed:
    """The commit that this attempt made: its place in the log, and what it added. `replay_seq`: the newest of
    the replays' chain among the entries since its base, 0 without one.
    """

    version: int
    rows: int
    ledger_commit: LedgerCommit
    files: int = 0
    bytes: int = 0
    replay_seq: int = 0


Arrived = Callable[[LogPage, TableRef, LedgerCommit], Committed | None]
"""Finds an attempt's commit among the entries after its base; None where it is not there."""


def written_in(page: LogPage, table: TableRef, ledger_commit: LedgerCommit) -> Committed | None:
    """The commit that this attempt made, or None if its token is not in the log. In: the entries after its base.

    Raises Fenced, RestartStream, LedgerError or RetriableError as `append`. The next commit's base is above
    these entries, so a RESTORE or an emptied table among them is found here or never.
    """
    entry = find_token(page, ledger_commit.token)
    if entry is None:
        other = foreign_commit(page, ledger_commit.run)
        if other is not None:
            raise _fenced(table, other)
        if any(is_chained(e) for e in page.entries):
            raise RetriableError(f"this run itself committed to {table} since version {ledger_commit.base}")
        return None
    if restored_since(page, ledger_commit.base):
        raise RestartStream(f"{table} was restored to an older version while the stream ran")
    for each in page.entries:
        refuse_emptied(each)
    return Committed(
        entry.version,
        entry.rows_written,
        ledger_commit,
        entry.files_written,
        entry.bytes_written,
        replay_seq=newest_replay_seq(page),
    )


def append(
    rows: DataFrame, table: TableRef, ledger_commit: LedgerCommit, arrived: Arrived = written_in
) -> Committed:
    """Append `rows` as this ledger commit, if nobody committed to the ledger since its base.

    `rows` may be empty: the commit is made all the same. Raises Fenced if another run committed instead;
    RestartStream after a RESTORE; LedgerError if the table was emptied since the base; RetriableError if a
    commit of this run came between, or the write was skipped. Any other error of the write is raised
    unchanged when the token is not in the log.
    """
    writer = (
        rows.write.format("delta")
        .mode("append")
        .option("txnAppId", ledger_commit.txn_app)
        .option("txnVersion", str(ledger_commit.seq))
        .option("userMetadata", ledger_commit.to_json())
    )
    return make_commit(lambda: save_into(writer, table), rows.sparkSession, table, ledger_commit, arrived)


def make_commit(
    write: Callable[[], object],
    spark: SparkSession,
    table: TableRef,
    ledger_commit: LedgerCommit,
    arrived: Arrived,
) -> Committed:
    """Call `write`, which takes the table's lock, and return the commit that `arrived` finds in the log, also
    after an error of the write.

    Delta skips a transaction version that is not higher than the recorded one without an error, and can answer
    a commit that it made with an error: so only the attempt's token in the log counts.
    """
    failure: Exception | None = None
    try:
        write()
    except Exception as error:
        failure = error
    # Outside the handler: an error in here must not be taken for a consequence of the failure.
    found = arrived(commits_since(log_of(spark, table), ledger_commit.base), table, ledger_commit)
    if found is not None:
        return found
    if failure is not None:
        raise failure
    raise RetriableError(
        f"the write of {ledger_commit.token} to {table} was skipped: seq {ledger_commit.seq} is taken already"
    )


def append_nothing(
    spark: SparkSession, table: TableRef, ledger_commit: LedgerCommit, schema: T.StructType
) -> Committed:
    """An empty ledger commit: opens a generation, keeps marks alive, or moves them."""
    return append(no_rows(spark, schema), table, ledger_commit)


def state_after(committed: Committed, before: LedgerState) -> LedgerState:
    """The ledger's state right after a commit, without reading the log again."""
    ledger_commit = committed.ledger_commit
    return LedgerState(
        version=committed.version,
        newest=ledger_commit,
        newest_version=committed.version,
        marks=ledger_commit.marks,
        published=ledger_commit.published,
        high_water=before.high_water.highest(ledger_commit.high_water).highest(ledger_commit.marks),
        undone=ledger_commit.undone,
        replay_seq=max(ledger_commit.replay_seq, committed.replay_seq),
    )


def check_still_ours(table: TableRef, known: LedgerState, now: LedgerState, *, run: str) -> None:
    """Compare the ledger with the state that this run knows, before a batch.

    Raises RestartStream after a RESTORE, LedgerError if the table was dropped and created again, Fenced
    if another run committed.
    """
    if now.restored:
        raise RestartStream(f"{table} was restored to an older version while the stream ran")
    if now.version < known.version or (known.newest is not None and now.newest is None):
        raise LedgerError(
            f"the log of {table} ends at version {now.version}, before version {known.version} that was"
            " read: the table was dropped and created again",
            "take the rows that are there into account with tidemark adopt --stream <name>, or start a new table",
        )
    if now.newest is not None and now.newest.run != run and now.newest != known.newest:
        raise _fenced(table, now.newest)


def _fenced(table: TableRef, other: LedgerCommit) -> Fenced:
    return Fenced(
        f"another writer committed seq {other.seq} ({other.token}) to {table}; nothing more is written here",
        "one writer per stream: stop the other one, then start this one again",
    )
