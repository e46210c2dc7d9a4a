"""Consequences of marks that went back, before a stream writes below the highest ones again."""

from __future__ import annotations

import structlog
from pyspark.sql import SparkSession

from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.platform.local_rows import no_rows
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.log_files import log_of
from tidemark.sink.replay_commit import append_replayed, in_replay_chain
from tidemark.source.topics import Topic
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)

BY = "tidemark, at a start"


def reopen_undone(spark: SparkSession, target: Target, state: LedgerState) -> None:
    """Reopen dead letters whose row a RESTORE removed.

    Every ledger commit passes on the undone versions, so this does not depend on the retention of the log,
    and a start after an interrupted one does it again.
    """
    if target.decode is None or not state.undone:
        return
    count = DeadLetterTable(target.table).reopen_undone(spark, state.undone, by=BY)
    if count:
        log.warning(
            "dead letters reopened, as a RESTORE took their rows", stream=target.name, dead_letters=count
        )


def reopen_all(spark: SparkSession, target: Target, topic: Topic) -> None:
    """Reopen all dead letters: a new table has the rows of none."""
    if target.decode is None:
        return
    note = "the table was created again, without its row"
    count = DeadLetterTable(target.table).reopen_all(spark, topic.id, by=BY, note=note)
    if count:
        log.warning("dead letters reopened, as their table is new", stream=target.name, dead_letters=count)


def fence_replays(spark: SparkSession, target: Target, topic: Topic, state: LedgerState) -> None:
    """Refuse replays that decided by older marks, where this start may land the same records.

    Makes an empty commit in their chain, after `state` was read and before the first batch: a replay that
    decided before `state` is refused, one that decides later sees where this start resumes.
    """
    if not may_land_replayed(state) or target.decode is None or target.stream.idempotency.merge_keys:
        return

    in_replay_chain(
        target.table,
        lambda: read_state(log_of(spark, target.table)),
        lambda _, own: append_replayed(no_rows(spark, target.schema), target.table, own),
        stream=target.name,
        topic_id=topic.id,
        token=f"{target.run}/fence",
        reason="replays fenced",
    )


def may_land_replayed(state: LedgerState) -> bool:
    """Whether a start reads records again that a replay may have taken for completed."""
    return not state.resume >= state.high_water.highest(state.marks)
