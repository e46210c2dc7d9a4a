"""Takes over a table whose ledger does not fit the stream: a person chooses the marks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.errors import LedgerError, Locked, RetriableError
from tidemark.contract.ledger_commit import CommitKind
from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.sink import table as tables
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.log_files import log_of
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.streams.completed import with_completed
from tidemark.streams.generation import Opening, open_generation
from tidemark.streams.target import Target

_LARGEST_SEQ = 2**62


class MarksFrom(StrEnum):
    """Where the adopted marks come from."""

    ROWS = "rows"
    """One past the highest offset of each partition that the table has rows of."""
    KEPT = "kept"
    """The newest ledger commit, whatever happened to the table since."""
    EARLIEST = "earliest"
    """The topic's first offsets: rows that the table has are not doubled."""
    LATEST = "latest"
    """The topic's end: records that were not read do not land."""


@dataclass(frozen=True)
class Adoptable:
    """The marks that `adopt` would set. `published`: up to where the dead letters are certainly complete; the
    records between are read again. `again`: every record without a row lands again.
    """

    marks: Marks
    published: Marks
    again: bool = False


def adoptable_marks(spark: SparkSession, admin: KafkaAdmin, target: Target, source: MarksFrom) -> Adoptable:
    """The marks that `adopt` would set. Taken from rows, a partition without rows starts at the topic's earliest
    offset, and rejected records at the end are read, and dead-lettered, again.

    Raises LedgerError where there is no table to take them from, or no marks to keep.
    """
    topic = admin.describe(target.stream.kafka_topic)
    earliest = admin.earliest(topic)
    if source is MarksFrom.EARLIEST:
        return Adoptable(earliest, earliest, again=True)
    if source is MarksFrom.LATEST:
        ends = admin.ends(topic)
        return Adoptable(ends, ends)
    state = _state(spark, target)
    if source is MarksFrom.KEPT:
        if not _same_topic(state, topic):
            raise LedgerError(f"{target.table} has no marks of topic {topic.name} to keep")
        return kept(state, earliest, target)
    marks = earliest.highest(marks_of_rows(spark, target, topic))
    return Adoptable(marks, published_of_rows(marks, earliest, target.stream.processing.max_batch_size))


def kept(state: LedgerState, earliest: Marks, target: Target) -> Adoptable:
    """The newest ledger commit's marks, published as far as its checkpoint proves: not all of them, where the
    last batch ended before its dead letters were acknowledged.
    """
    newest = state.newest
    assert newest is not None
    there = replace(state, marks=newest.marks, published=newest.published, restored=False)
    published = with_completed(target, there).resume
    return Adoptable(newest.marks, published.highest(earliest).lowest(newest.marks))


def published_of_rows(marks: Marks, earliest: Marks, max_batch_size: int) -> Marks:
    """Rows land before the dead letters of their batch are published, so those of the last batch are uncertain:
    it began at most `max_batch_size` before its end.
    """
    begins = Marks({p: mark - max_batch_size for p, mark in marks.items()})
    return begins.highest(earliest).lowest(marks)


def marks_of_rows(spark: SparkSession, target: Target, topic: Topic) -> Marks:
    highest = (
        spark.table(target.table.sql)
        .where(F.col(records.TOPIC_ID) == topic.id)
        .groupBy(records.PARTITION)
        .agg((F.max(records.OFFSET) + 1).alias("mark"))
        .collect()
    )
    return Marks({row[records.PARTITION]: row["mark"] for row in highest})


def adopt(spark: SparkSession, admin: KafkaAdmin, target: Target, adopted: Adoptable) -> LedgerState:
    """Make a ledger commit with these marks, under the target's name. The next start resumes from them.

    Where all lands again, resolved dead letters are reopened. An absent table is created. Where Delta remembers
    transactions of this stream whose commits the log no longer has, it accepts only a seq above theirs, which
    cannot be read: so higher ones are tried.
    """
    topic = admin.describe(target.stream.kafka_topic)
    info = tables.describe(spark, target.table)
    if info is None:
        info = tables.create(spark, target.table, target.schema, target.destination)
    if adopted.again and target.decode is not None:
        note = "the table was adopted to land everything again"
        DeadLetterTable(target.table).reopen_all(spark, topic.id, by="tidemark adopt", note=note)
    state = _state(spark, target)
    if adopted.again:
        state = begun_anew(state)
    moved = replace(
        state,
        marks=adopted.marks,
        published=adopted.published.lowest(adopted.marks),
        high_water=ceiling_over(adopted.marks, admin.ends(topic), state, topic.id),
    )
    seq = state.seq
    while seq < _LARGEST_SEQ:
        try:
            opening = Opening("adopted", CommitKind.ADOPT, seq=seq + 1, table_id=info.id)
            return open_generation(spark, target, topic, moved, opening)
        except Locked:
            raise
        except RetriableError:
            seq = max(1, seq * 2)
    raise LedgerError(f"{target.table} accepts no ledger commit of stream {target.name}")


def begun_anew(state: LedgerState) -> LedgerState:
    """The state in which every version is undone, so that no dead letter counts as resolved, not even one whose
    status is written later.
    """
    return replace(state, undone=((-1, state.version + 1),))


def ceiling_over(marks: Marks, ends: Marks, state: LedgerState, topic_id: str) -> Marks:
    """A high water above every row of the topic that the table has or that a running replay adds. Where the log
    has lost the marks, the topic's ends bound them.
    """
    known = state.high_water if state.newest is not None and state.newest.topic_id == topic_id else Marks()
    return marks.highest(ends).highest(known)


def _same_topic(state: LedgerState, topic: Topic) -> bool:
    return state.newest is not None and state.newest.topic_id == topic.id


def _state(spark: SparkSession, target: Target) -> LedgerState:
    if tables.describe(spark, target.table) is None:
        raise LedgerError(f"there is no table {target.table} to adopt", "tidemark ingest creates it")
    return read_state(log_of(spark, target.table), accept_emptied=True)
