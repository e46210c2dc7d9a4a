"""Lands the rows of a replay, while the stream's marks may go back."""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame, SparkSession

from tidemark.contract.failpoints import failpoint
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.contract.undone import is_undone
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.platform.kept_rows import kept
from tidemark.sink.append import Committed
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.log_files import log_of
from tidemark.sink.replay_commit import append_replayed, in_replay_chain, not_in_table
from tidemark.source.topics import Topic
from tidemark.streams.completed import completed_state
from tidemark.streams.target import Target


class MarksWentBack(Exception):
    """The stream will land the chosen records again, although they were completed."""


def land_replayed(
    spark: SparkSession, target: Target, topic: Topic, accepted: DataFrame, chosen_at: LedgerState
) -> Committed:
    """One REPLAY commit of the rows that the table lacks. `chosen_at`: the state that the dead letters were
    chosen by. Raises MarksWentBack where the stream may land them again itself.
    """
    states = iter([chosen_at])

    def attempt(state: LedgerState, own: LedgerCommit) -> Committed:
        if not state.resume >= chosen_at.resume:
            raise MarksWentBack
        rows = kept(not_in_table(accepted, target.table))
        failpoint("replay-decided")
        return append_replayed(rows, target.table, own)

    return in_replay_chain(
        target.table,
        lambda: next(states, None) or completed_state(spark, target, topic),
        attempt,
        stream=target.name,
        topic_id=topic.id,
        token=f"{uuid.uuid4().hex}/replay",
    )


def reopen_if_restored(
    spark: SparkSession, target: Target, table: DeadLetterTable, version: int | None, *, by: str
) -> None:
    """Reopens what a RESTORE between the commit and the statuses undid: the stream's start may have missed them."""
    now = read_state(log_of(spark, target.table), accept_emptied=True)
    if version is not None and is_undone(version, now.undone):
        table.reopen_undone(spark, now.undone, by=by)
