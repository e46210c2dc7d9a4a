"""The size of the fingerprint memory, and how to empty it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.contract.errors import LedgerError, UsageError
from tidemark.ingest.idempotency.fingerprints import delay_ms
from tidemark.sink import table as tables
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.log_files import log_of
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.completed import with_completed
from tidemark.streams.generation import Opening, open_generation
from tidemark.streams.target import Target


@dataclass(frozen=True)
class Memory:
    """Entries after the newest committed batch; `oldest` and `newest`: their arrival, UTC.

    Rejected, skipped and published-again records have an entry too, which equals no other.
    """

    stream: str
    checkpoint: str
    entries: int
    oldest: datetime | None
    newest: datetime | None


def memory_of(spark: SparkSession, target: Target) -> Memory:
    """The fingerprints of the stream. Reads the newest checkpoint only; safe while the stream runs.

    Raises UsageError for a stream of another mode, LedgerError where the table has no marks yet.
    """
    state = _state(spark, target)
    assert state.newest is not None
    named = state.newest.checkpoint
    nothing = Memory(target.name, named, 0, None, None)
    if not named.startswith("fingerprint-") or target.checkpoint(named).position() is None:
        return nothing
    # This makes Spark create the coordinator of state stores, which the reader needs.
    _ = spark.streams.active
    try:
        entries = spark.read.format("statestore").load(target.checkpoint(named).path)
        expires = F.col("value.expiresAtMicros")
        found = entries.agg(
            F.count(F.lit(1)).alias("entries"),
            *[
                F.timestamp_micros(of(expires) - delay_ms(target.stream.idempotency) * 1000).alias(name)
                for name, of in (("oldest", F.min), ("newest", F.max))
            ],
        ).first()
    except PySparkException as error:
        if "STDS_" in (error.getCondition() or ""):
            return nothing
        raise
    assert found is not None
    return Memory(target.name, named, found["entries"], found["oldest"], found["newest"])


def forget(spark: SparkSession, admin: KafkaAdmin, target: Target) -> LedgerState:
    """Make a ledger commit after which the next start takes a fresh checkpoint from the same marks.

    No record is lost or lands twice by its coordinates. The commit fences a running stream, which stops. Raises
    as `memory_of`, and LedgerError where the topic was created again since.
    """
    state = with_completed(target, _state(spark, target))
    topic = admin.describe(target.stream.kafka_topic)
    if state.newest is not None and state.newest.topic_id != topic.id:
        raise LedgerError(
            f"topic {topic.name} was created again since {target.table} was written: it has another id",
            "start the stream: it lands all records of the new topic, and remembers nothing of the former one",
        )
    return open_generation(spark, target, topic, state, Opening("fingerprints reset"))


def _state(spark: SparkSession, target: Target) -> LedgerState:
    if not target.remembers:
        mode = target.stream.idempotency.mode.value
        raise UsageError(f"{target.name} remembers no fingerprints", f"its idempotency.mode is {mode}")
    if tables.describe(spark, target.table) is None:
        raise LedgerError(f"there is no table {target.table} yet", "tidemark ingest creates it")
    state = read_state(log_of(spark, target.table))
    if state.newest is None:
        raise LedgerError(f"{target.table} has no marks of Tidemark", f"{target.adopt} sets them")
    return state
