"""How far a stream has completed its topic: below that it never writes again, unless its marks go back."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.contract.errors import LedgerError
from tidemark.sink.ledger import LedgerState, in_generation, read_state
from tidemark.sink.table_log import DeltaLog
from tidemark.source.topics import Topic
from tidemark.streams.target import Target


def with_completed(target: Target, state: LedgerState) -> LedgerState:
    """The state with what the newest own commit's checkpoint proves to be done, whatever its mode was: after
    a clean stop nothing is read again, also where a fresh one follows.

    It may be ahead of the marks, where an outage dead-lettered what follows: all below the marks is done
    then. A start, and whoever writes below what is done (replay, backfill), have to agree: else both land
    the same row. After a RESTORE that no generation was opened for, it proves nothing: which records of the
    older marks are rejected is decided again.
    """
    if state.newest is None or not state.newest.checkpoint or state.restored:
        return state
    position = target.checkpoint(state.newest.checkpoint).position()
    return state if position is None else state.published_at_least(position.end)


def completed_state(spark: SparkSession, target: Target, topic: Topic) -> LedgerState:
    """The table's ledger. Its `done` lags a batch behind; what the checkpoint has committed is done too, so
    `resume` is as high as anybody can tell. Raises LedgerError without marks.
    """
    state = in_generation(read_state(DeltaLog(spark, target.table)), topic.id)
    if state.newest is None:
        raise LedgerError(f"{target.table} has no marks", "tidemark ingest opens its ledger")
    return with_completed(target, state)
