"""How far a stream has completed its topic: below that it never writes again, unless its marks go back."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.contract.errors import LedgerError
from tidemark.pipeline.start import Target
from tidemark.pipeline.usable_checkpoint import with_completed
from tidemark.sink.ledger import LedgerState, in_generation, read_state
from tidemark.sink.table_log import DeltaLog
from tidemark.source.topics import Topic


def completed_state(spark: SparkSession, target: Target, topic: Topic) -> LedgerState:
    """The table's ledger. Its `done` lags a batch behind; what the checkpoint has committed is done too, so
    `resume` is as high as anybody can tell. Raises LedgerError without marks.
    """
    state = in_generation(read_state(DeltaLog(spark, target.table)), topic.id)
    if state.newest is None:
        raise LedgerError(f"{target.table} has no marks", "tidemark ingest opens its ledger")
    return with_completed(target, state)
