"""Keeps marks alive: log cleanup forgets old commits, so an idle stream commits nothing once a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from tidemark.contract.own_commit import CommitKind
from tidemark.pipeline.start import Target, open_generation
from tidemark.sink.ledger import read_state
from tidemark.sink.table_log import DeltaLog
from tidemark.source.topics import Topic

EVERY = timedelta(days=1)


def beat_if_due(
    spark: SparkSession, target: Target, topic: Topic, *, now: datetime, every: timedelta = EVERY
) -> bool:
    """Make an empty own commit with the marks in effect if the newest one is older than `every`.

    `now` has a zone. Safe beside a running batch of the same run: whoever comes second tries again on
    the new state. Leaves a restored table alone, as the next start opens its generation.
    """
    log = DeltaLog(spark, target.table)
    state = read_state(log)
    if state.newest is None or state.restored or state.newest.topic_id != topic.id:
        return False
    newest = next((e for e in log(20).entries if e.version == state.newest_version), None)
    if newest is not None and newest.timestamp is not None:
        age = now - newest.timestamp.replace(tzinfo=UTC)
        if age < every:
            return False
    open_generation(
        spark,
        target,
        topic,
        state,
        marks=state.marks,
        done=state.done,
        ceiling=state.ceiling,
        reason="heartbeat",
        kind=CommitKind.HEARTBEAT,
        checkpoint=state.newest.checkpoint,
    )
    return True
