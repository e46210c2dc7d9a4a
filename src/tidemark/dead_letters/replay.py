"""Replay: dead letters through the pipeline again, straight into the table.

A replayed record keeps its coordinates, so replaying twice changes nothing. Only dead letters below the marks
that the stream has completed are touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass
from functools import reduce
from operator import and_
from typing import Any

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_ID, DeadLetterStatus
from tidemark.contract.errors import RetriableError, UsageError
from tidemark.contract.failpoints import failpoint
from tidemark.contract.marks import Marks
from tidemark.contract.routes import Route
from tidemark.dead_letters.codes import code_counts
from tidemark.dead_letters.dlq_table.table import DeadLetterTable, event
from tidemark.dead_letters.replay_landing import MarksWentBack, land_replayed, reopen_if_restored
from tidemark.dead_letters.selection import PayloadEdit, Selection, edited
from tidemark.platform.kept_rows import kept
from tidemark.sink.replay_commit import not_in_table
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.streams.completed import completed_state
from tidemark.streams.table_limits import within_its_table
from tidemark.streams.target import Target
from tidemark.transform import SchemaRegistry, transform, with_registered

log = structlog.get_logger(__name__)

MOST_FAILURES = 3
_MOST_STARTS = 3


@dataclass(frozen=True)
class ReplayResult:
    """Counts of dead letters: chosen = resolved + rejected + parked + waiting + omitted.

    `already`: resolved ones whose row was in the table before. `waiting`: the stream has not
    completed their batch yet. `omitted`: their bytes were kept nowhere. `codes`: of the rejected and parked.
    """

    stream: str
    chosen: int
    resolved: int
    already: int
    rejected: int
    parked: int
    waiting: int
    omitted: int
    codes: dict[str, int]
    version: int | None
    dry_run: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Replay:
    """Decodes, validates and classifies dead letters with today's schema and rules, and lands the accepted.

    A dead letter is resolved once its row is in the table; one that fails again stays new, and is parked after
    `most_failures` failed replays. Killed anywhere and run again, nothing lands twice. Payloads stay with
    Spark: the driver sees counts. `dry_run` counts what would happen and changes nothing.
    """

    spark: SparkSession
    admin: KafkaAdmin
    target: Target
    _: KW_ONLY
    edit: PayloadEdit | None = None
    dry_run: bool = False
    by: str = "tidemark"
    most_failures: int = MOST_FAILURES
    progress: Callable[[str], None] = lambda step: None

    def of(self, selection: Selection) -> ReplayResult:
        """Replays the chosen dead letters.

        Raises UsageError where nothing can be replayed this way, LedgerError without a table or marks,
        RetriableError where the stream's marks went back during each of several attempts.
        """
        self._check()
        for _ in range(_MOST_STARTS):
            try:
                return self._attempt(self.admin.describe(self.target.stream.kafka_topic), selection)
            except MarksWentBack:
                log.warning("the stream's marks went back; the replay begins again", stream=self.target.name)
        raise RetriableError(
            f"the marks of {self.target.table} went back during each of {_MOST_STARTS} replays"
        )

    @property
    def table(self) -> DeadLetterTable:
        return DeadLetterTable(self.target.table)

    def _check(self) -> None:
        if self.target.stream.idempotency.merge_keys:
            raise UsageError(
                f"{self.target.table} holds one row per entity: an old version cannot be put back by its"
                " coordinates",
                "use --republish: the record goes to the topic again and is merged by its order",
            )
        if not self.table.exists(self.spark):
            raise UsageError(
                f"there is no table {self.table.facts} yet",
                f"tidemark dead-letters stream --stream {self.target.name} makes and fills it",
            )

    def _attempt(self, topic: Topic, selection: Selection) -> ReplayResult:
        """Raises MarksWentBack where the chosen records are the stream's to land again."""
        decode = within_its_table(self.spark, self.target).decode
        assert decode is not None
        state = completed_state(self.spark, self.target, topic)
        self.progress("choose dead letters")
        if not self.dry_run:
            self.table.reopen_undone(self.spark, state.undone, by=self.by)
        chosen = selection.of(self.table.dead_letters(self.spark)).withColumn(
            "_waits", _not_completed(topic, state.resume)
        )
        ready = edited(chosen.where(~F.col("_waits") & ~_omitted()), self.edit)
        self.progress("decode")
        envelopes = ready.select(*records.ENVELOPE_COLUMNS)
        plan = with_registered(envelopes, decode, SchemaRegistry.of(self.target.stream.avro))
        outcome = kept(_outcomes(ready, transform(envelopes, plan)))
        counted = _count(chosen, outcome)
        version, already = None, 0
        accepted = outcome.where(_is(Route.ACCEPTED)).select(f"{records.ROW}.*")
        if self.dry_run:
            already = counted["accepted"] - not_in_table(accepted, self.target.table).count()
        elif counted["accepted"]:
            self.progress("land")
            committed = land_replayed(self.spark, self.target, topic, accepted, state)
            version, already = committed.version, counted["accepted"] - committed.rows
            failpoint("replay-landed")
        failed = outcome.where(_is(Route.REJECTED))
        parked = failed.where(self._is_last()).count() if counted["rejected"] else 0
        if not self.dry_run and counted["outcomes"]:
            self.progress("note")
            self._note(outcome, failed, version)
            failpoint("replay-noted")
            reopen_if_restored(self.spark, self.target, self.table, version, by=self.by)
        result = ReplayResult(
            stream=self.target.name,
            chosen=counted["chosen"],
            resolved=counted["accepted"] + counted["skipped"],
            already=already,
            rejected=counted["rejected"] - parked,
            parked=parked,
            waiting=counted["waiting"],
            omitted=counted["omitted"],
            codes=code_counts(failed) if counted["rejected"] else {},
            version=version,
            dry_run=self.dry_run,
        )
        if self.dry_run:
            log.info("replay dry run", **result.as_dict(), by=self.by)
        else:
            log.info("dead letters replayed", **result.as_dict(), by=self.by)
        return result

    def _is_last(self) -> Column:
        """Whether this failure parks a dead letter."""
        return F.col("attempts") + 1 >= self.most_failures

    def _note(self, outcome: DataFrame, failed: DataFrame, version: int | None) -> None:
        """Appends the new statuses at once. Killed before it, the next replay finds the rows landed."""
        resolved = outcome.where(~_is(Route.REJECTED)).withColumn(
            "table_version", F.lit(version).cast("bigint")
        )
        tombstone = F.when(_is(Route.SKIPPED), F.lit("fixed into a tombstone, which is skipped"))
        why = F.concat_ws(": ", F.col(f"{records.FAILURE}.code"), F.col(f"{records.FAILURE}.message"))
        events = event(resolved, DeadLetterStatus.RESOLVED, by=self.by, note=tombstone)
        for status, which in (
            (DeadLetterStatus.NEW, failed.where(~self._is_last())),
            (DeadLetterStatus.PARKED, failed.where(self._is_last())),
        ):
            events = events.unionByName(
                event(which, status, by=self.by, note=why, attempts=F.col("attempts") + 1)
            )
        self.table.note(events)


def _not_completed(topic: Topic, resume: Marks) -> Column:
    """Records at or above these offsets may still be landed by the stream itself."""
    beyond = F.lit(False)
    for partition in topic.partitions:
        at = resume.at(partition)
        beyond = beyond | ((F.col(records.PARTITION) == partition) & (F.col(records.OFFSET) >= at))
    return (F.col(records.TOPIC_ID).eqNullSafe(topic.id)) & beyond


def _omitted() -> Column:
    return F.col("payload_omitted").isNotNull() & F.col(records.PAYLOAD).isNull()


def _is(route: Route) -> Column:
    return F.col(records.ROUTE) == route.value


def _outcomes(ready: DataFrame, routed: DataFrame) -> DataFrame:
    """Dead letters with their route, failure and row."""
    key = (records.TOPIC, *records.COORDINATES)
    outcomes = routed.select(
        *[F.col(name).alias(f"_{name}") for name in key], records.ROUTE, records.FAILURE, records.ROW
    )
    dead_letters = ready.select(
        DEAD_LETTER_ID, *key, "status", "attempts", "edit", "table_version", "status_sequence"
    )
    same = reduce(and_, [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in key])
    return dead_letters.join(outcomes, same).drop(*[f"_{name}" for name in key])


def _count(chosen: DataFrame, outcome: DataFrame) -> dict[str, int]:
    selected = chosen.agg(
        F.count(F.lit(1)).alias("chosen"),
        F.count_if(F.col("_waits")).alias("waiting"),
        F.count_if(~F.col("_waits") & _omitted()).alias("omitted"),
    ).first()
    found = outcome.agg(
        F.count(F.lit(1)).alias("outcomes"),
        *[
            F.count_if(_is(route)).alias(route.value)
            for route in (Route.ACCEPTED, Route.SKIPPED, Route.REJECTED)
        ],
    ).first()
    assert selected is not None
    assert found is not None
    return {**selected.asDict(), **found.asDict()}
