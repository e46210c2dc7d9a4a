"""Sets a stream's marks by hand, back or forward, and records the skipped offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog
from pyspark.sql import SparkSession

from tidemark.contract.errors import LedgerError, UsageError
from tidemark.contract.ledger_commit import CommitKind
from tidemark.contract.marks import Marks
from tidemark.sink import table as tables
from tidemark.sink.ledger import LedgerState, in_generation, read_state
from tidemark.sink.log_files import log_of
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.streams.completed import with_completed
from tidemark.streams.generation import Opening, open_generation
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RewindTarget:
    """The new marks: exactly one of these. Partitions that `offsets` does not name stay."""

    offsets: Mapping[int, int] | None = None
    time: datetime | None = None
    earliest: bool = False
    latest: bool = False

    def __post_init__(self) -> None:
        if sum([self.offsets is not None, self.time is not None, self.earliest, self.latest]) != 1:
            raise UsageError("say where to: one of offsets, a time, earliest and latest")


@dataclass(frozen=True)
class RewindResult:
    """A rewind, planned or made: `version` is None for a plan. `skipped`: partition to [from, to) that no
    query will read; `again`: partition to [from, to) that is read again, and lands nothing twice.
    `completed`: marks up to which the dead letters are published too.
    """

    stream: str
    table: str
    before: Marks
    completed: Marks
    after: Marks
    version: int | None = None

    @property
    def skipped(self) -> dict[int, tuple[int, int]]:
        """Includes offsets below the old marks where a crash left rejected records unpublished."""
        ahead = self.before.behind(self.after)
        return {p: (min(low, self.completed.at(p)), high) for p, (low, high) in ahead.items()}

    @property
    def again(self) -> dict[int, tuple[int, int]]:
        return self.after.behind(self.before)

    def as_dict(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "table": self.table,
            "before": dict(self.before),
            "after": dict(self.after),
            "skipped": {p: list(r) for p, r in self.skipped.items()},
            "again": {p: list(r) for p, r in self.again.items()},
            "version": self.version,
        }


def plan_rewind(spark: SparkSession, admin: KafkaAdmin, target: Target, to: RewindTarget) -> RewindResult:
    """What `rewind` would set. Changes nothing.

    Raises UsageError for a partition or an offset that the topic does not have, and LedgerError where there are
    no marks to move, or rows and marks do not belong together.
    """
    topic = admin.describe(target.stream.kafka_topic)
    state = _state(spark, target, topic)
    marks = _marks(admin, topic, state, to)
    return RewindResult(target.name, str(target.table), state.marks, state.published, marks)


def rewind(spark: SparkSession, admin: KafkaAdmin, target: Target, to: RewindTarget) -> RewindResult:
    """Move the marks in one ledger commit. It fences a running stream; the next start resumes from the new marks.

    Back: records that are read again land by coordinates, so no row is doubled. Forward: the skipped ranges are
    in the commit (`jumped`), and do not land unless the marks go back.
    """
    topic = admin.describe(target.stream.kafka_topic)
    state = _state(spark, target, topic)
    marks = _marks(admin, topic, state, to)
    planned = RewindResult(target.name, str(target.table), state.marks, state.published, marks)
    moved = replace(
        state,
        marks=marks,
        published=published_after(state, marks),
        high_water=state.high_water.highest(state.marks).highest(marks),
    )
    opening = Opening("rewind", CommitKind.REWIND, jumped=planned.skipped)
    opened = open_generation(spark, target, topic, moved, opening)
    log.warning("marks moved", **{**planned.as_dict(), "version": opened.version})
    return replace(planned, version=opened.version)


def published_after(state: LedgerState, marks: Marks) -> Marks:
    """Published marks after a rewind. Where marks do not advance, dead letters may still be unpublished."""
    ahead = state.marks.behind(marks)
    return Marks({p: o if p in ahead else min(o, state.published.at(p)) for p, o in marks.items()})


def _state(spark: SparkSession, target: Target, topic: Topic) -> LedgerState:
    if tables.describe(spark, target.table) is None:
        raise LedgerError(f"there is no table {target.table}", "tidemark ingest creates it")
    state = read_state(log_of(spark, target.table))
    if state.newest is None:
        raise LedgerError(f"{target.table} has no marks to move", f"take them from the rows: {target.adopt}")
    if state.newest.stream != target.name:
        raise LedgerError(
            f"{target.table} is written by stream {state.newest.stream}, not by {target.name}",
            f"{target.adopt} takes it over",
        )
    return with_completed(target, in_generation(state, topic.id))


def _marks(admin: KafkaAdmin, topic: Topic, state: LedgerState, to: RewindTarget) -> Marks:
    earliest, ends = admin.earliest(topic), admin.ends(topic)
    if to.earliest:
        return earliest
    if to.latest:
        return ends
    if to.time is not None:
        return admin.at_time(topic, round(to.time.timestamp() * 1000))
    asked = to.offsets or {}
    wrong = [
        f"partition {p}: {o} is outside of {earliest.at(p)} to {ends.at(p)}"
        if p in topic.partitions
        else f"partition {p}: the topic has {', '.join(map(str, topic.partitions))}"
        for p, o in asked.items()
        if p not in topic.partitions or not earliest.at(p) <= o <= ends.at(p)
    ]
    if wrong:
        raise UsageError(f"topic {topic.name}: {'; '.join(wrong)}")
    return Marks({**state.marks, **asked})
