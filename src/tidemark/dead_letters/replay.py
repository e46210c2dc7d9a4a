"""Replay: dead letters through the pipeline again, straight into the table.

A replayed record keeps its coordinates, so replaying twice changes nothing. Only dead letters below what the
stream has completed are touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_ID, DeadLetterStatus
from tidemark.contract.errors import RetriableError, UsageError
from tidemark.contract.failpoints import failpoint
from tidemark.contract.marks import Marks
from tidemark.contract.routes import Route
from tidemark.dead_letters.codes import code_counts
from tidemark.dead_letters.kept.table import DeadLetterTable, event
from tidemark.dead_letters.replay_landing import MarksWentBack, land_replayed, reopen_if_restored
from tidemark.dead_letters.selection import PayloadEdit, Selection
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
    """What a replay came to, in dead letters: chosen = resolved + rejected + parked + waiting + omitted.

    `already`: of the resolved, those whose row was in the table before. `waiting`: the stream has not
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


def replay(
    spark: SparkSession,
    admin: KafkaAdmin,
    target: Target,
    selection: Selection,
    *,
    edit: PayloadEdit | None = None,
    dry_run: bool = False,
    by: str = "tidemark",
    most_failures: int = MOST_FAILURES,
    progress: Callable[[str], None] = lambda step: None,
) -> ReplayResult:
    """Decode, validate and classify the chosen dead letters with today's schema and rules; land what is right.

    A dead letter is resolved once its row is in the table; one that fails again stays new, and is parked after
    `most_failures` failed replays. Killed anywhere and run again, nothing lands twice. Payloads stay with
    Spark: the driver sees counts. `dry_run` says what would happen and changes nothing.

    Raises UsageError where nothing can be replayed this way, LedgerError without a table or marks,
    RetriableError where the stream's marks went back meanwhile, again and again.
    """
    how = _How(selection, edit, dry_run=dry_run, by=by, most_failures=most_failures, progress=progress)
    for _ in range(_MOST_STARTS):
        try:
            return _replay(spark, admin, target, how)
        except MarksWentBack:
            log.warning("the stream's marks went back; the replay begins again", stream=target.name)
    raise RetriableError(f"the marks of {target.table} went back during each of {_MOST_STARTS} replays")


@dataclass(frozen=True)
class _How:
    selection: Selection
    edit: PayloadEdit | None
    dry_run: bool
    by: str
    most_failures: int
    progress: Callable[[str], None]


def _replay(spark: SparkSession, admin: KafkaAdmin, target: Target, how: _How) -> ReplayResult:
    edit, dry_run, by, progress = how.edit, how.dry_run, how.by, how.progress
    table = _dead_letters_of(spark, target)
    decode = within_its_table(spark, target).decode
    assert decode is not None
    topic = admin.describe(target.stream.kafka_topic)
    state = completed_state(spark, target, topic)
    progress("choose dead letters")
    if not dry_run:
        table.reopen_undone(spark, state.undone, by=by)
    chosen = how.selection.of(table.dead_letters(spark)).withColumn(
        "_waits", _not_completed(topic, state.resume)
    )
    ready = chosen.where(~F.col("_waits") & ~_omitted())
    edited = edit.of(ready) if edit is not None else ready
    progress("decode")
    envelopes = edited.select(*records.ENVELOPE_COLUMNS)
    plan = with_registered(envelopes, decode, SchemaRegistry.of(target.stream.avro))
    outcome = kept(_outcomes(edited, transform(envelopes, plan)))
    counted = _count(chosen, outcome)
    version, already = None, 0
    accepted = outcome.where(F.col(records.ROUTE) == Route.ACCEPTED.value).select(f"{records.ROW}.*")
    if dry_run:
        already = counted["accepted"] - not_in_table(accepted, target.table).count()
    elif counted["accepted"]:
        progress("land")
        committed = land_replayed(spark, target, topic, accepted, state)
        version, already = committed.version, counted["accepted"] - committed.rows
        failpoint("replay-landed")
    failed = _failed(outcome)
    parked = failed.where(F.col("attempts") + 1 >= how.most_failures)
    parked_count = parked.count() if counted["rejected"] else 0
    if not dry_run and counted["outcomes"]:
        progress("note")
        _note(table, outcome, failed, version=version, edit=edit, by=by, most_failures=how.most_failures)
        failpoint("replay-noted")
        reopen_if_restored(spark, target, table, version, by=by)
    done = ReplayResult(
        stream=target.name,
        chosen=counted["chosen"],
        resolved=counted["accepted"] + counted["skipped"],
        already=already,
        rejected=counted["rejected"] - parked_count,
        parked=parked_count,
        waiting=counted["waiting"],
        omitted=counted["omitted"],
        codes=code_counts(failed) if counted["rejected"] else {},
        version=version,
        dry_run=dry_run,
    )
    log.info("dead letters replayed", **{**done.as_dict(), "by": by})
    return done


def _dead_letters_of(spark: SparkSession, target: Target) -> DeadLetterTable:
    if target.stream.idempotency.merge_keys:
        raise UsageError(
            f"{target.table} holds one row per entity: an old version cannot be put back by its coordinates",
            "use --republish: the record goes to the topic again and is merged by its order",
        )
    table = DeadLetterTable(target.table)
    if not table.exists(spark):
        raise UsageError(
            f"there is no table {table.facts} yet", "tidemark dead-letters stream makes and fills it"
        )
    return table


def _not_completed(topic: Topic, resume: Marks) -> Any:
    """Records at or above these offsets may still be landed by the stream itself."""
    beyond = F.lit(False)
    for partition in topic.partitions:
        at = resume.at(partition)
        beyond = beyond | ((F.col(records.PARTITION) == partition) & (F.col(records.OFFSET) >= at))
    return (F.col(records.TOPIC_ID).eqNullSafe(topic.id)) & beyond


def _omitted() -> Any:
    return F.col("payload_omitted").isNotNull() & F.col(records.PAYLOAD).isNull()


def _outcomes(edited: DataFrame, routed: DataFrame) -> DataFrame:
    """Dead letters with their route, failure and row."""
    key = [F.col(name).alias(f"_{name}") for name in (records.TOPIC, *records.COORDINATES)]
    told = routed.select(*key, records.ROUTE, records.FAILURE, records.ROW)
    dead_letters = edited.select(
        DEAD_LETTER_ID,
        *(records.TOPIC, *records.COORDINATES),
        *("status", "attempts", "edit", "table_version", "status_sequence"),
    )
    same = [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in (records.TOPIC, *records.COORDINATES)]
    condition = same[0] & same[1] & same[2] & same[3]
    return dead_letters.join(told, condition).drop(*[f"_{n}" for n in (records.TOPIC, *records.COORDINATES)])


def _count(chosen: DataFrame, outcome: DataFrame) -> dict[str, int]:
    def number(condition: Any) -> Any:
        return F.count(F.when(condition, F.lit(1)))

    asked = chosen.agg(
        F.count(F.lit(1)).alias("chosen"),
        number(F.col("_waits")).alias("waiting"),
        number(~F.col("_waits") & _omitted()).alias("omitted"),
    ).first()
    route = F.col(records.ROUTE)
    found = outcome.agg(
        F.count(F.lit(1)).alias("outcomes"),
        number(route == Route.ACCEPTED.value).alias("accepted"),
        number(route == Route.SKIPPED.value).alias("skipped"),
        number(route == Route.REJECTED.value).alias("rejected"),
    ).first()
    assert asked is not None
    assert found is not None
    return {**asked.asDict(), **found.asDict()}


def _failed(outcome: DataFrame) -> DataFrame:
    return outcome.where(F.col(records.ROUTE) == Route.REJECTED.value)


def _note(
    table: DeadLetterTable,
    outcome: DataFrame,
    failed: DataFrame,
    *,
    version: int | None,
    edit: PayloadEdit | None,
    by: str,
    most_failures: int,
) -> None:
    """What became of the dead letters, in one append. Killed before it, the next replay finds the rows landed."""
    how = F.lit(str(edit)) if edit is not None else F.lit(None).cast("string")
    edited = outcome.withColumn("edit", how)
    resolved = edited.where(F.col(records.ROUTE) != Route.REJECTED.value).withColumn(
        "table_version", F.lit(version).cast("bigint")
    )
    again = F.col("attempts") + 1
    why = F.concat_ws(": ", F.col(f"{records.FAILURE}.code"), F.col(f"{records.FAILURE}.message"))
    note_resolved = F.when(
        F.col(records.ROUTE) == Route.SKIPPED.value, F.lit("fixed into a tombstone, which is skipped")
    )
    events = event(resolved, DeadLetterStatus.RESOLVED, by=by, note=note_resolved)
    still = edited.where(F.col(records.ROUTE) == Route.REJECTED.value)
    for status, which in (
        (DeadLetterStatus.NEW, still.where(again < most_failures)),
        (DeadLetterStatus.PARKED, still.where(again >= most_failures)),
    ):
        events = events.unionByName(event(which, status, by=by, note=why, attempts=again))
    table.note(events)
