"""Where a query starts, by the table's ledger, the topic and the checkpoint.

Long because every case of a start is decided here.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from pyspark.sql import SparkSession

from tidemark.contract.errors import DataLoss, LedgerError, Locked, RetriableError
from tidemark.contract.marks import Marks
from tidemark.ingest.start.lost_table import refuse_lost_table, refuse_rows_without_marks
from tidemark.ingest.start.marks_went_back import fence_replays, reopen_all, reopen_undone
from tidemark.ingest.start.recreated_topic import remove_mislabelled
from tidemark.ingest.start.usable_checkpoint import usable_checkpoint
from tidemark.sink import table as tables
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.log_files import log_of
from tidemark.source.checkpoint import Checkpoint
from tidemark.source.topics import KafkaAdmin, Topic, settled_ends
from tidemark.streams.completed import with_completed
from tidemark.streams.generation import Opening, open_generation
from tidemark.streams.table_limits import within_its_table
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Start:
    """How to start: the ledger's state, and a checkpoint that joins it. A fresh one starts at `marks`.

    `target` has the limits of its table. `lost`: the number of offsets that retention deleted unread.
    """

    target: Target
    topic: Topic
    state: LedgerState
    checkpoint_id: str
    checkpoint: Checkpoint
    marks: Marks
    fresh: bool
    lost: int = 0


def start_of(spark: SparkSession, admin: KafkaAdmin, target: Target, *, now: datetime) -> Start:
    """Decide where to start, opening the table's ledger where needed. `now` has a zone.

    Raises LedgerError for a table that is not this stream's, SchemaConflict, DataLoss where Kafka no
    longer has records that were not read, NonRetriableError without a topic.
    """
    topic = admin.describe(target.stream.kafka_topic)
    info = tables.describe(spark, target.table)
    if info is None:
        refuse_lost_table(target)
        info = tables.create(spark, target.table, target.schema, target.destination)
    tables.check_properties(target.table, info)
    evolve = target.stream.schema_evolution == "add-columns"
    tables.check_schema(spark, target.table, info, target.schema, evolve=evolve)
    target = within_its_table(spark, target, info)

    state = read_state(log_of(spark, target.table))
    if state.newest is None:
        refuse_rows_without_marks(spark, target, info)
        refuse_lost_table(target)
        state = _open(spark, admin, target, topic, state, table_id=info.id)
    elif state.newest.stream != target.name:
        raise LedgerError(
            f"{target.table} is written by stream {state.newest.stream}, not by {target.name}",
            f"one stream per table; if the stream was renamed: {target.adopt}",
        )
    _check_identity(target, info.id, state)
    state = _reopen_if_needed(spark, admin, target, topic, state)
    state = with_completed(target, state)
    reopen_undone(spark, target, state)
    fence_replays(spark, target, topic, state)
    usable = usable_checkpoint(target, state, now)
    checked = _within_kafka(spark, admin, target, topic, state)
    if usable is not None and checked is state:
        return Start(target, topic, state, usable.identifier, usable.checkpoint, usable.initial, fresh=False)
    identifier = fresh_identifier(target.stream.idempotency.mode.value, checked.seq, target.run)
    lost = 0 if checked is state or checked.newest is None else _offsets_in(checked.newest.jumped)
    checkpoint = target.checkpoint(identifier)
    return Start(target, topic, checked, identifier, checkpoint, checked.resume, fresh=True, lost=lost)


def fresh_identifier(mode: str, seq: int, run: str) -> str:
    """The name of a checkpoint that no start used before, not even of the same run: batches that an earlier
    checkpoint planned may lie beyond the marks.
    """
    return f"{mode}-{seq:010d}-{run[:8]}{uuid.uuid4().hex[:8]}"


def _check_identity(target: Target, table_id: str, state: LedgerState) -> None:
    known = state.newest.table_id if state.newest else ""
    if known and known != table_id:
        raise LedgerError(
            f"{target.table} is another table (id {table_id}) than the one its marks belong to (id {known})",
            f"land everything again: {target.adopt} --marks earliest; or go on where the marks stand:"
            f" {target.adopt} --marks kept",
        )


def _open(
    spark: SparkSession,
    admin: KafkaAdmin,
    target: Target,
    topic: Topic,
    state: LedgerState,
    *,
    table_id: str,
) -> LedgerState:
    """The first ledger commit of a table: the stream's starting offsets become its marks."""
    latest = target.stream.starting_offsets == "latest"
    if not latest:
        reopen_all(spark, target, topic)
    marks = admin.ends(topic) if latest else admin.earliest(topic)
    try:
        begin = replace(state, marks=marks, published=marks, high_water=marks)
        return open_generation(spark, target, topic, begin, Opening("new table", table_id=table_id))
    except Locked:
        raise
    except RetriableError as error:
        raise LedgerError(
            f"{target.table} remembers stream {target.name}, but its log holds no marks any more",
            f"take the marks from the rows: {target.adopt}",
        ) from error


def _reopen_if_needed(
    spark: SparkSession, admin: KafkaAdmin, target: Target, topic: Topic, state: LedgerState
) -> LedgerState:
    """After a RESTORE the marks are lower, for a new topic they are empty: either opens a generation."""
    assert state.newest is not None
    if state.newest.topic_id != topic.id:
        log.warning(
            "topic is another one than before; its records are all new",
            stream=target.name,
            topic=topic.name,
            before=state.newest.topic_id,
            now=topic.id,
        )
        remove_mislabelled(spark, admin, target.table, newest=state.newest, topic=topic)
        begin = replace(state, marks=Marks(), published=Marks(), high_water=Marks())
        return open_generation(spark, target, topic, begin, Opening("new topic"))
    if state.restored:
        log.warning(
            "table was restored; going on from its older marks", stream=target.name, marks=dict(state.marks)
        )
        return open_generation(spark, target, topic, state, Opening("restored"))
    return state


def _within_kafka(
    spark: SparkSession, admin: KafkaAdmin, target: Target, topic: Topic, state: LedgerState
) -> LedgerState:
    """The marks must lie between the topic's first and end offsets, or records were lost."""
    ends = settled_ends(admin, topic, Marks({p: o for p, o in state.marks.items() if p in topic.partitions}))
    beyond = {p: r for p, r in ends.behind(state.marks).items() if p in topic.partitions}
    if beyond:
        listed = "; ".join(f"partition {p}: marks at {m}, topic ends at {e}" for p, (e, m) in beyond.items())
        raise DataLoss(
            f"the marks of {target.table} lie beyond the end of topic {topic.name}: {listed}",
            "the topic lost records (unclean leader election, or truncated); to land what comes from here on:"
            f" {target.rewind} --to-latest",
        )
    earliest = admin.earliest(topic)
    lost = {p: r for p, r in state.resume.behind(earliest).items() if p in topic.partitions}
    if not lost:
        return state
    count = _offsets_in(lost)
    ranges = "; ".join(f"partition {p}: offsets {at} to {first - 1}" for p, (at, first) in lost.items())
    if target.stream.on_data_loss == "stop":
        raise DataLoss(
            f"retention took {count} records of topic {topic.name} that were not read yet: {ranges}",
            "to record the loss and go on: on-data-loss: continue, or"
            f" {target.rewind}" + "".join(f" --to-offset {p}={first}" for p, (_, first) in lost.items()),
        )
    log.error("records lost to retention", stream=target.name, records=count, ranges=ranges)
    marks, published = state.marks.highest(earliest), state.published.highest(earliest)
    moved = replace(state, marks=marks, published=published, high_water=state.high_water.highest(marks))
    return open_generation(spark, target, topic, moved, Opening("data loss", jumped=lost))


def _offsets_in(ranges: Mapping[int, tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in ranges.values())
