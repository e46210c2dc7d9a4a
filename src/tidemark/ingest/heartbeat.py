"""Keeps marks alive: log cleanup removes old commits, so an idle stream makes an empty commit once a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from tidemark.contract.ledger_commit import CommitKind
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.log_files import log_of
from tidemark.source.topics import Topic
from tidemark.streams.generation import Opening, open_generation
from tidemark.streams.target import Target

EVERY = timedelta(days=1)


def beat_if_due(
    spark: SparkSession,
    target: Target,
    topic: Topic,
    *,
    now: datetime,
    every: timedelta = EVERY,
    state: LedgerState | None = None,
) -> bool:
    """Make an empty ledger commit with the marks in effect if the newest one is older than `every`.

    `now` has a zone. `state`: the ledger as it was read a moment ago; without it the log is read. Safe while
    a batch of the same run commits: the second of the two tries again on the new state. A restored table is
    left to the next start, which opens its generation.
    """
    if state is None:
        state = read_state(log_of(spark, target.table))
    if state.newest is None or state.restored or state.newest.topic_id != topic.id:
        return False
    if state.newest_at is None or now - state.newest_at.replace(tzinfo=UTC) < every:
        return False
    opening = Opening("heartbeat", CommitKind.HEARTBEAT, checkpoint=state.newest.checkpoint)
    open_generation(spark, target, topic, state, opening)
    return True
