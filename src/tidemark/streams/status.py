"""The status of each stream: marks, ends, lag, last commit. Reads only; safe while an ingest runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidemark.config.destination import TableRef
from tidemark.config.settings import Settings
from tidemark.config.stream import Stream
from tidemark.contract.errors import TidemarkError
from tidemark.contract.marks import Marks
from tidemark.platform.session import s3_scheme
from tidemark.resilience.breaker_state import remembered_in
from tidemark.resilience.breakers import FOLDER
from tidemark.sink.ledger import in_generation, read_state
from tidemark.sink.log_files import log_of
from tidemark.sink.table_log import ReadLog
from tidemark.source.topics import KafkaAdmin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class PartitionStatus:
    """`lag`: records at most still to read, never below 0; offsets have holes, so it is an upper bound."""

    partition: int
    mark: int
    end_offset: int
    lag: int


@dataclass(frozen=True)
class StreamStatus:
    """One table of a stream. `problem`: why the rest is missing, or why the stream would not start. `breakers`:
    destination -> state, of those used on this machine. `counts`: the batch counts in the newest commit, of the
    batch before it. `dead_letters`: offsets in the DLQ topic, None without one; `keeps_dead_letters`: whether the
    stream's own application brings them into the DLQ table.
    """

    stream: str
    topic: str
    table: str
    topic_id: str | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    last_commit_version: int | None = None
    last_commit_time: str | None = None
    last_commit_kind: str | None = None
    seq: int = 0
    restored: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    dead_letters: int | None = None
    keeps_dead_letters: bool = False
    breakers: dict[str, str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def lag(self) -> int:
        return sum(p.lag for p in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "lag": self.lag}


Logs = Callable[[TableRef], ReadLog | None]
"""The log of a table, or None where there is no table yet."""


def logs_of(spark: SparkSession) -> Logs:
    """The logs of any tables, as a driver reads them. `sink.log_files.logs_in` reads those of folders without Spark."""
    from tidemark.sink import table as tables

    return lambda table: None if tables.describe(spark, table) is None else log_of(spark, table)


def status_of(logs: Logs, settings: Settings, name: str) -> list[StreamStatus]:
    """The stream's tables, decoded first. A broker or table that cannot be read becomes `problem`."""
    stream = settings.stream(name)
    found = []
    breakers = list(remembered_in(settings.state_dir / FOLDER))
    for kind, table in settings.tables(name, scheme=s3_scheme()).items():
        label = name if kind == "decoded" else f"{name}.{kind}"
        try:
            status = _status(logs(table), settings, label, stream.kafka_topic, table)
            if kind == "decoded":
                status = _with_dead_letters(status, settings, stream)
        except TidemarkError as error:
            problem = f"{error.message}; {error.hint}" if error.hint else error.message
            status = StreamStatus(label, stream.kafka_topic, str(table), problem=problem)
        states = {b.name.removeprefix(f"{label}/"): b.state.value for b in breakers if _of(b.name, label)}
        found.append(replace(status, breakers=states))
    return found


def _with_dead_letters(status: StreamStatus, settings: Settings, stream: Stream) -> StreamStatus:
    """Without the right to DESCRIBE the DLQ topic the marks are shown all the same."""
    status = replace(status, keeps_dead_letters=stream.dead_letter.keep_table)
    try:
        return replace(status, dead_letters=_offsets_in(settings, stream.dlq_topic))
    except TidemarkError as error:
        return replace(status, problem=status.problem or f"dead letters are not counted: {error.message}")


def _offsets_in(settings: Settings, topic_name: str) -> int | None:
    admin = KafkaAdmin(settings.kafka)
    topic = admin.find(topic_name)
    if topic is None:
        return None
    first = admin.earliest(topic)
    return sum(max(0, end - first.at(p)) for p, end in admin.ends(topic).items())


def _of(breaker: str, label: str) -> bool:
    return breaker.rpartition("/")[0] == label


def _status(
    log: ReadLog | None, settings: Settings, label: str, topic_name: str, table: TableRef
) -> StreamStatus:
    admin = KafkaAdmin(settings.kafka)
    topic = admin.describe(topic_name)
    ends, earliest = admin.ends(topic), admin.earliest(topic)
    if log is None:
        partitions = partitions_of(earliest, ends)
        return StreamStatus(label, topic_name, str(table), topic.id, partitions, problem="not started yet")
    written = read_state(log)
    state = in_generation(written, topic.id)
    return StreamStatus(
        stream=label,
        topic=topic_name,
        table=str(table),
        topic_id=topic.id,
        partitions=partitions_of(state.marks, ends),
        last_commit_version=written.newest_version if written.newest else None,
        last_commit_time=written.newest_at.isoformat(timespec="milliseconds") + "Z"
        if written.newest_at
        else None,
        last_commit_kind=written.newest.kind.value if written.newest else None,
        seq=written.seq,
        restored=written.restored,
        counts=dict(written.newest.counts) if written.newest else {},
    )


def partitions_of(marks: Marks, ends: Marks) -> tuple[PartitionStatus, ...]:
    return tuple(PartitionStatus(p, marks.at(p), end, max(0, end - marks.at(p))) for p, end in ends.items())
