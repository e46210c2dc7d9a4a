"""Decodes an offset range again with the present schema and rules, and corrects the table."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.settings import Settings
from tidemark.contract import records
from tidemark.contract.errors import DataLoss, UsageError
from tidemark.contract.marks import Marks
from tidemark.contract.routes import Route
from tidemark.dead_letters.codes import code_counts
from tidemark.platform.kept_rows import kept
from tidemark.platform.session import s3_scheme
from tidemark.resilience.classification import classifier_for
from tidemark.resilience.retry import retrier_for
from tidemark.sink import table as tables
from tidemark.sink.ledger import read_state
from tidemark.sink.log_files import log_of
from tidemark.sink.merge import correct
from tidemark.sink.replay_commit import in_replay_chain
from tidemark.sink.statements import Ranges, quoted, within
from tidemark.source.reader import read_range
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.streams.completed import completed_state
from tidemark.streams.table_limits import within_its_table
from tidemark.streams.target import Target
from tidemark.transform import SchemaRegistry, transform, with_registered

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OffsetRange:
    """[start, end) of each partition that `end` names."""

    topic: Topic
    start: Marks
    end: Marks

    @property
    def ranges(self) -> Ranges:
        return {p: (self.start.at(p), end) for p, end in self.end.items()}


@dataclass(frozen=True)
class Backfilled:
    """The result of a backfill. `changed` rows had other content, `missing` ones were absent. `copies` were absent
    too and are not added: in `fingerprint` mode the stream leaves out what it has seen before. Rows of records that
    the present rules reject (`rejected`) stay. `version`: of the commit, None for a dry run or where the table was
    correct.
    """

    stream: str
    start: dict[int, int]
    end: dict[int, int]
    read: int
    accepted: int
    changed: int
    missing: int
    copies: int
    rejected: int
    skipped: int
    codes: dict[str, int]
    version: int | None
    dry_run: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def backfill(
    spark: SparkSession,
    settings: Settings,
    target: Target,
    *,
    start: Marks,
    end: Marks,
    from_landing: bool = False,
    dry_run: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Backfilled:
    """Correct the rows of [start, end) in every partition that `end` names, in one REPLAY commit.

    The stream may run meanwhile, as it has completed these offsets. Records come from Kafka, or from the
    stream's raw landing table, which may reach further back.

    Raises UsageError for a range that the stream has not completed or a table that has no coordinates, DataLoss
    where Kafka no longer has the range, RetriesExhausted when other commits always come first.
    """
    if target.decode is None or target.stream.idempotency.merge_keys:
        raise UsageError(
            f"{target.table} cannot be corrected by coordinates: it has"
            f" {'raw records' if target.decode is None else 'one row per entity'}",
            f"read the topic again instead: {target.rewind}",
        )
    admin = KafkaAdmin(settings.kafka)
    asked = OffsetRange(admin.describe(target.stream.kafka_topic), start, end)
    state = completed_state(spark, target, asked.topic)
    beyond = {p: o for p, o in end.items() if o > state.resume.at(p)}
    if beyond:
        raise UsageError(
            f"the stream has not completed {beyond} yet (partition: end of the range)",
            f"it has completed {dict(state.resume)}; start the stream first, or choose an earlier end",
        )
    progress("read and decode")
    envelopes = _landed(spark, settings, target, asked) if from_landing else _from_kafka(spark, admin, asked)
    decode = within_its_table(spark, target).decode or target.decode
    plan = with_registered(envelopes, decode, SchemaRegistry.of(target.stream.avro))
    routed = kept(transform(envelopes, plan))
    rows = routed.where(F.col(records.ROUTE) == Route.ACCEPTED.value).select(f"{records.ROW}.*")
    progress("compare with the table")
    changed, absent = _differences(rows, target, asked)
    missing = 0 if target.remembers else absent
    counts = {r[records.ROUTE]: r["count"] for r in routed.groupBy(records.ROUTE).count().collect()}
    version = None
    if not dry_run and changed + missing:
        progress("correct")
        version = _correct(spark, target, rows, asked)
    done = Backfilled(
        stream=target.name,
        start={p: start.at(p) for p in end},
        end=dict(end),
        read=sum(counts.values()),
        accepted=counts.get(Route.ACCEPTED.value, 0),
        changed=changed,
        missing=missing,
        copies=absent - missing,
        rejected=counts.get(Route.REJECTED.value, 0),
        skipped=counts.get(Route.SKIPPED.value, 0),
        codes=code_counts(routed),
        version=version,
        dry_run=dry_run,
    )
    log.info("backfilled", **done.as_dict())
    return done


def _from_kafka(spark: SparkSession, admin: KafkaAdmin, asked: OffsetRange) -> DataFrame:
    earliest = admin.earliest(asked.topic)
    gone = {p: r for p, r in asked.start.behind(earliest).items() if p in asked.end}
    if gone:
        raise DataLoss(
            f"topic {asked.topic.name} no longer has {gone} (partition: asked, first there)",
            "choose a later start, or --from-landing if the stream has a landing table",
        )
    return read_range(spark, admin.kafka, asked.topic, start=asked.start, end=asked.end)


def _landed(spark: SparkSession, settings: Settings, target: Target, asked: OffsetRange) -> DataFrame:
    landing = settings.tables(target.name, scheme=s3_scheme()).get("landing")
    if landing is None or tables.describe(spark, landing) is None:
        raise UsageError(f"stream {target.name} has no landing table", "leave --from-landing out")
    found = spark.table(landing.sql).alias("t").where(within(asked.topic.id, asked.ranges))
    return found.select(*records.ENVELOPE_COLUMNS)


def _differences(rows: DataFrame, target: Target, asked: OffsetRange) -> tuple[int, int]:
    """Rows of the table that differ from `rows`, and rows that it does not have."""
    table = rows.sparkSession.table(target.table.sql).alias("t")
    there = table.where(within(asked.topic.id, asked.ranges))
    compared = [c for c in rows.columns if c not in records.COORDINATES]
    old = there.select(*records.COORDINATES, F.struct(*[F.col(quoted(c)) for c in compared]).alias("_old"))
    new = rows.select(*records.COORDINATES, F.struct(*[F.col(quoted(c)) for c in compared]).alias("_new"))
    joined = new.join(old, list(records.COORDINATES), "left")
    counted = joined.agg(
        F.count(F.when(F.col("_old").isNull(), F.lit(1))).alias("missing"),
        F.count(F.when(F.col("_old").isNotNull() & ~F.col("_old").eqNullSafe(F.col("_new")), F.lit(1))).alias(
            "changed"
        ),
    ).first()
    assert counted is not None
    return counted["changed"], counted["missing"]


def _correct(spark: SparkSession, target: Target, rows: DataFrame, asked: OffsetRange) -> int:
    def in_chain() -> int:
        read = log_of(spark, target.table)
        committed = in_replay_chain(
            target.table,
            lambda: read_state(read),
            lambda _, own: correct(rows, target.table, own, asked.ranges, insert=not target.remembers),
            stream=target.name,
            topic_id=asked.topic.id,
            token=f"{uuid.uuid4().hex}/backfill",
            reason="backfill",
        )
        return committed.version

    retry = retrier_for(target.stream.processing, classifier_for(target.stream.failures))
    return retry.call(in_chain, step=f"backfill of {target.table}")
