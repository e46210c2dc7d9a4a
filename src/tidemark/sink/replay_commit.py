"""Rows of replayed records: ledger commits in a chain of their own, next to a running stream's.

A replay decides which rows the table lacks and appends them later without reading, so that it does not conflict
with the stream. That is sound while the stream writes only above what is completed, where no replay writes. A
stream whose marks went back writes below that again, so it fences the replays that decided before.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.errors import LedgerError, Locked, RetriableError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.sink.append import Committed, append
from tidemark.sink.ledger import LedgerState, find_token
from tidemark.sink.lineage import takes_rows_away
from tidemark.sink.table_log import LogPage, as_of_now

log = structlog.get_logger(__name__)

_MOST_ATTEMPTS = 70
_MOST_WAITS = 4
"""For the commit lock, which a stream holds while it writes a batch: two minutes in all."""


def in_replay_chain(
    table: TableRef,
    read: Callable[[], LedgerState],
    attempt: Callable[[LedgerState, LedgerCommit], Committed],
    *,
    stream: str,
    topic_id: str,
    token: str,
    reason: str | None = None,
) -> Committed:
    """One commit of the replays' chain: `attempt`, given a state and the ledger commit that follows it. `token`
    begins the commit's own and is the caller's alone.

    Where another commit of the chain came first, the state is read and the attempt repeated. The attempt must
    decide its rows after the state was read. Raises LedgerError where no seq is accepted, Locked where another
    writer keeps the table's commit lock.
    """
    tried = waits = 0
    for number in range(1, _MOST_ATTEMPTS):
        state = read()
        # An adopted ledger does not know the newest seq, though Delta does: higher ones are tried.
        tried = state.replay_seq + 1 if state.replay_seq >= tried else tried * 2
        try:
            return attempt(
                state,
                LedgerCommit(
                    kind=CommitKind.REPLAY,
                    stream=stream,
                    topic_id=topic_id,
                    token=f"{token}/{tried}",
                    seq=tried,
                    base=state.version,
                    reason=reason,
                ),
            )
        except Locked:
            # Nobody came first, so no higher seq is needed.
            tried, waits = 0, waits + 1
            if waits == _MOST_WAITS:
                raise
        except RetriableError as error:
            log.warning("replay tries again", table=str(table), attempt=number, error=error.message)
    raise LedgerError(f"{table} accepts no replay", "start it again when no other replay of the table runs")


def not_in_table(rows: DataFrame, table: TableRef) -> DataFrame:
    """The rows whose coordinates the table does not have. Reads the files that cover their offsets.

    Records that other programs dead-lettered have no topic id: their topic's name stands for it.
    """
    span = rows.agg(F.min(records.OFFSET).alias("low"), F.max(records.OFFSET).alias("high")).first()
    if span is None or span["low"] is None:
        return rows
    there = as_of_now(rows.sparkSession, table).where(
        F.col(records.OFFSET).between(int(span["low"]), int(span["high"]))
    )
    # A topic's name may look like an id, but neither has a colon.
    topic = F.coalesce(F.col(records.TOPIC_ID), F.concat(F.lit(":"), F.col(records.SOURCE_TOPIC)))
    identity = {"_topic": topic, "_partition": F.col(records.PARTITION), "_offset": F.col(records.OFFSET)}
    known = there.select(*[column.alias(name) for name, column in identity.items()])
    return rows.withColumns(identity).join(known, list(identity), "left_anti").select(*rows.columns)


def append_replayed(rows: DataFrame, table: TableRef, ledger_commit: LedgerCommit) -> Committed:
    """Append `rows`, which must no longer be read from the table, as this REPLAY commit.

    It adds without reading, so it conflicts with no append of the stream, and no append with it. Raises
    RetriableError where another commit of the chain was made since its base, its seq is not above one that the
    log has forgotten, or the table was restored or emptied meanwhile: the rows have to be decided again then.
    """
    return append(rows, table, ledger_commit, replay_written_in)


def replay_written_in(page: LogPage, table: TableRef, ledger_commit: LedgerCommit) -> Committed | None:
    """The REPLAY commit of this attempt, or None if it is not in the log. In: the entries after its base.

    Raises RetriableError as `append_replayed`: where rows were removed, rows that the replay found in the table
    may be gone.
    """
    entry = find_token(page, ledger_commit.token)
    if entry is not None:
        if any(takes_rows_away(e) for e in page.entries):
            raise RetriableError(f"rows of {table} were removed while {ledger_commit.token} was decided")
        return Committed(entry.version, entry.rows_written, ledger_commit)
    if any(e.ledger_commit is not None and e.ledger_commit.kind is CommitKind.REPLAY for e in page.entries):
        raise RetriableError(f"another replay committed to {table} since version {ledger_commit.base}")
    return None
