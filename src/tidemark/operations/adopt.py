"""Take over a table whose ledger does not fit the stream: a person says which marks hold."""

from __future__ import annotations

from enum import StrEnum

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.errors import LedgerError, RetriableError
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind
from tidemark.sink import table as tables
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.table_log import DeltaLog
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.streams.generation import open_generation
from tidemark.streams.target import Target

_LARGEST_SEQ = 2**62


class MarksFrom(StrEnum):
    """Where the adopted marks come from."""

    ROWS = "rows"
    """One past the highest offset of each partition that the table has rows of."""
    KEPT = "kept"
    """The newest own commit, whatever happened to the table since."""
    EARLIEST = "earliest"
    """The topic's first offsets: what is in the table already is not doubled."""
    LATEST = "latest"
    """The topic's end: what was not read is left out."""


def adoptable_marks(spark: SparkSession, admin: KafkaAdmin, target: Target, source: MarksFrom) -> Marks:
    """The marks that `adopt` would set. From rows, a partition without any starts at the topic's earliest
    offset, and a tail that was rejected is read, and dead-lettered, once more.

    Raises LedgerError where there is no table to take them from, or no marks to keep.
    """
    topic = admin.describe(target.stream.kafka_topic)
    if source is MarksFrom.EARLIEST:
        return admin.earliest(topic)
    if source is MarksFrom.LATEST:
        return admin.ends(topic)
    state = _state(spark, target)
    if source is MarksFrom.KEPT:
        if state.newest is None or state.newest.topic_id != topic.id:
            raise LedgerError(f"{target.table} has no marks of topic {topic.name} to keep")
        return state.newest.marks
    return admin.earliest(topic).highest(marks_of_rows(spark, target, topic))


def marks_of_rows(spark: SparkSession, target: Target, topic: Topic) -> Marks:
    highest = (
        spark.table(target.table.sql)
        .where(F.col(records.TOPIC_ID) == topic.id)
        .groupBy(records.PARTITION)
        .agg((F.max(records.OFFSET) + 1).alias("mark"))
        .collect()
    )
    return Marks({row[records.PARTITION]: row["mark"] for row in highest})


def adopt(spark: SparkSession, admin: KafkaAdmin, target: Target, marks: Marks) -> LedgerState:
    """An own commit with these marks, under the target's name. The next start goes on from there.

    A table that remembers transactions of this stream without having their commits any more accepts
    only a seq above the remembered one, which cannot be read: so higher ones are tried. A table that is not
    there is created.
    """
    topic = admin.describe(target.stream.kafka_topic)
    facts = tables.describe(spark, target.table)
    if facts is None:
        facts = tables.create(spark, target.table, target.schema, target.destination)
    state = _state(spark, target)
    seq = state.seq
    while seq < _LARGEST_SEQ:
        try:
            return open_generation(
                spark,
                target,
                topic,
                state,
                marks=marks,
                done=marks,
                ceiling=marks.highest(state.ceiling) if _same_topic(state, topic) else marks,
                reason="adopted",
                kind=CommitKind.ADOPT,
                seq=seq + 1,
                table_id=facts.id,
            )
        except RetriableError:
            seq = max(1, seq * 2)
    raise LedgerError(f"{target.table} accepts no own commit of stream {target.name}")


def _same_topic(state: LedgerState, topic: Topic) -> bool:
    return state.newest is not None and state.newest.topic_id == topic.id


def _state(spark: SparkSession, target: Target) -> LedgerState:
    if tables.describe(spark, target.table) is None:
        raise LedgerError(f"there is no table {target.table} to adopt", "tidemark ingest creates it")
    return read_state(DeltaLog(spark, target.table), accept_emptied=True)
