"""How far a stream has completed its topic: below that it does not write again, unless its marks go back."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.contract.errors import LedgerError
from tidemark.sink.ledger import LedgerState, in_generation, read_state
from tidemark.sink.log_files import log_of
from tidemark.source.topics import Topic
from tidemark.streams.target import Target


def with_completed(target: Target, state: LedgerState) -> LedgerState:
    """The state, published as far as the checkpoint of the newest ledger commit proves, whatever its mode: after a
    clean stop nothing is read again, even by a fresh checkpoint.

    The checkpoint may be ahead of the marks, where an outage dead-lettered what follows: all below the marks is
    published then. A start and other writers below it (replay, backfill) have to agree on this state, or both
    land the same row. After a RESTORE for which no generation is opened yet the checkpoint proves nothing.
    """
    if state.newest is None or not state.newest.checkpoint or state.restored:
        return state
    position = target.checkpoint(state.newest.checkpoint).position()
    return state if position is None else state.published_at_least(position.end)


def completed_state(spark: SparkSession, target: Target, topic: Topic) -> LedgerState:
    """The table's ledger, with `resume` as high as the checkpoint proves: the log is one batch behind it.

    Raises LedgerError without marks.
    """
    state = in_generation(read_state(log_of(spark, target.table)), topic.id)
    if state.newest is None:
        raise LedgerError(f"{target.table} has no marks", "tidemark ingest opens its ledger")
    return with_completed(target, state)
