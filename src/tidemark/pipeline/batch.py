"""The way of one micro-batch: its order of effects reads from top to bottom in `_land` (DESIGN §2)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.errors import (
    DataLoss,
    NonRetriableError,
    RestartStream,
    TidemarkError,
)
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind, OwnCommit
from tidemark.contract.routes import Route
from tidemark.pipeline.batch_plan import BatchPlan, BatchReport
from tidemark.pipeline.census import Census, census_of, count_again, letters_carried, observe
from tidemark.pipeline.fault_points import reach
from tidemark.pipeline.novelty import Bounds, Novelty, not_landed, novelty_of, with_novelty
from tidemark.pipeline.schema_ids import with_schema_ids
from tidemark.sink.append import Committed, append, check_still_ours, state_after
from tidemark.sink.dead_letter import REJECTED_COLUMNS
from tidemark.sink.ledger import LedgerState, in_generation, read_state
from tidemark.sink.table_log import DeltaLog

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

_FRESH_STATE_S = 2.0
REJECTED_SCHEMA = f"{records.ENVELOPE_DDL}, {records.FAILURE} {records.FAILURE_DDL}"


@dataclass
class IngestBatch:
    """The `foreachBatch` handler of one query: lands a batch, or raises and has landed nothing half.

    Running a batch again, at any point of a former run's crash, neither loses nor doubles a record.
    In: classified records (`transform.transform`), or for a landing table the envelope with `row`.
    """

    plan: BatchPlan
    state: LedgerState
    on_report: Callable[[BatchReport], None] | None = None
    failure: BaseException | None = field(default=None, repr=False)
    _state_read_at: float = 0.0
    _attempts: int = 0
    _counts: dict[str, int] = field(default_factory=dict)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        try:
            report = self._land(batch, batch_id)
        except Exception as error:
            self.failure = error
            raise
        report = replace(report, seconds=time.monotonic() - began)
        log.info(
            "batch landed",
            stream=report.stream,
            batch=batch_id,
            read=report.read,
            accepted=report.accepted,
            rejected=report.rejected,
            skipped=report.skipped,
            duplicate=report.duplicate,
            version=report.version,
            seconds=round(report.seconds, 3),
        )
        if self.on_report is not None:
            self.on_report(report)

    def _land(self, batch: DataFrame, batch_id: int) -> BatchReport:
        plan = self.plan
        reach("batch-start")
        bounds = self._bounds(batch_id)
        self._check_topic()
        self._refresh_state(batch)
        self._check_joins(bounds)
        if bounds.end <= self.state.resume and not self.state.recovering:
            return self._known_already(batch, batch_id, bounds)

        if plan.decode is not None:
            decode = with_schema_ids(batch, plan.decode, plan.registry, plan.retry)
            self.plan = plan = replace(plan, decode=decode)
        novelty = novelty_of(bounds, self.state)
        routed = with_novelty(batch, novelty)
        committed, census = self._append(routed, batch_id, bounds, novelty)
        self._check_topic()

        self._check_bad_share(census)
        if census.rejected and plan.dead_letters is not None:
            reach("before-publish")
            plan.retry.call(lambda: self._publish(routed, census), step="publish dead letters")
            reach("after-publish")
        self.state = self.state.done_at_least(bounds.end)
        self._commit_group(bounds.end)
        reach("after-group-commit")
        return self._report(batch_id, census, committed)

    def _bounds(self, batch_id: int) -> Bounds:
        checkpoint = self.plan.checkpoint
        end = checkpoint.planned(batch_id)
        start = checkpoint.planned(batch_id - 1) if batch_id > 0 else self.plan.start
        return Bounds(start, end)

    def _check_topic(self) -> None:
        topic = self.plan.topic
        now = self.plan.admin.find(topic.name)
        if now is None or now.id != topic.id:
            raise NonRetriableError(
                f"topic {topic.name} was {'deleted' if now is None else 'deleted and created again'}"
                f" while the stream read it (id {topic.id}, now {now.id if now else 'none'})",
                "start the stream again: it lands the new topic from its beginning",
            )

    def _refresh_state(self, batch: DataFrame) -> None:
        """A RESTORE or another writer is noticed before the batch, unless the log was just read."""
        if time.monotonic() - self._state_read_at < _FRESH_STATE_S:
            return
        table, known = self.plan.table, self.state
        state = in_generation(read_state(DeltaLog(batch.sparkSession, table)), self.plan.topic.id)
        check_still_ours(table, known, state, run=self.plan.run)
        self.state = state.done_at_least(known.done)
        self._state_read_at = time.monotonic()

    def _check_joins(self, bounds: Bounds) -> None:
        """No gap: a batch that starts beyond the marks would claim records that never landed."""
        gaps = {
            p: (self.state.marks.at(p), bounds.start.at(p))
            for p in bounds.partitions
            if bounds.start.at(p) > self.state.marks.at(p)
        }
        if gaps:
            raise RestartStream(
                f"the batch does not join the marks of {self.plan.table}: {gaps} (marks, start)"
            )

    def _append(
        self, routed: DataFrame, batch_id: int, bounds: Bounds, novelty: Novelty
    ) -> tuple[Committed, Census]:
        """Steps 1 to 3, each attempt with its own token, DataFrame and observation."""
        tasks = max(len(bounds.partitions), self.plan.processing.min_partitions or 0, 2)
        carried = letters_carried(self.plan.processing.rejected_in_memory, tasks)
        seen: dict[str, Any] = {}

        def attempt() -> Committed:
            if self._attempts and seen.get("failed"):
                decided = self.state.marks
                self._refresh_state(routed)
                if self.state.marks != decided:
                    # A commit that was given up did arrive: what is new has to be decided again.
                    raise RestartStream("the marks moved between two attempts of one batch")
            self._attempts += 1
            seen["failed"] = True
            self._state_read_at = 0.0
            token = f"{self.plan.run}/{batch_id}/{self._attempts}"
            observation = Observation()
            watched = observe(routed, observation, carried=carried)
            accepted = watched.where((F.col(records.ROUTE) == Route.ACCEPTED.value) & F.col("novel"))
            rows = not_landed(accepted, self.plan.table, self.plan.topic.id, novelty).select("row.*")
            reach("before-append")
            committed = append(rows, self.plan.table, self._own_commit(token, bounds))
            seen["census"] = census_of(observation)
            return committed

        commits = self.plan.retry.for_commits(self.plan.processing.max_commit_retries)
        committed = self.plan.retry.call(
            lambda: commits.call(attempt, step="commit"), step=f"append to {self.plan.table}"
        )
        reach("after-append")
        self.state = state_after(committed, self.state)
        self._state_read_at = time.monotonic()
        census: Census | None = seen["census"]
        expected = committed.rows if novelty.undecided else None
        if census is None or (expected is None and census.novel_accepted != committed.rows):
            census = count_again(routed)
        return committed, census

    def _check_bad_share(self, census: Census) -> None:
        """Judged before the first dead letter is sent. The rejected stay between done and marks, so they
        are decoded again after the mend, and what is right then lands.
        """
        most = self.plan.processing.max_bad_share
        if most is not None and census.read and census.rejected / census.read > most:
            raise NonRetriableError(
                f"{census.rejected} of {census.read} records of {self.plan.stream} are bad, more than"
                f" max-bad-share {most:g}; none of them was published",
                "mend the schema or the producer and start again: they are decoded again then;"
                " or raise processing.max-bad-share to dead-letter them",
            )

    def _own_commit(self, token: str, bounds: Bounds) -> OwnCommit:
        state = self.state
        marks = state.marks.highest(bounds.end)
        return OwnCommit(
            kind=CommitKind.BATCH,
            stream=self.plan.stream,
            topic_id=self.plan.topic.id,
            token=token,
            seq=state.seq + 1,
            base=state.version,
            marks=marks,
            done=state.done,
            ceiling=state.ceiling.highest(marks),
            checkpoint=self.plan.checkpoint_id,
            counts=self._counts,
        )

    def _publish(self, routed: DataFrame, census: Census) -> None:
        letters = self.plan.dead_letters
        assert letters is not None
        if census.letters is not None:
            rows = [tuple(row[c] for c in REJECTED_COLUMNS) for row in census.letters]
            rejected = routed.sparkSession.createDataFrame(rows, REJECTED_SCHEMA)
        else:
            is_rejected = (F.col(records.ROUTE) == Route.REJECTED.value) & F.col("novel")
            rejected = routed.where(is_rejected).select(*REJECTED_COLUMNS)
        letters.publish(rejected)

    def _known_already(self, batch: DataFrame, batch_id: int, bounds: Bounds) -> BatchReport:
        """Everything landed and was published before: nothing to write, all of it counted."""
        read = batch.count()
        self._commit_group(bounds.end)
        census = Census(read, 0, 0, 0, read, 0, [])
        return self._report(batch_id, census, None)

    def _commit_group(self, end: Marks) -> None:
        if self.plan.group is None:
            return
        try:
            self.plan.group.commit(self.plan.topic.name, end)
        except TidemarkError as error:
            # For lag tools to see, nothing more: a failure is a warning, never a stop.
            log.warning("group offsets not committed", stream=self.plan.stream, error=error.message)

    def _report(self, batch_id: int, census: Census, committed: Committed | None) -> BatchReport:
        accepted = committed.rows if committed else 0
        report = BatchReport(
            stream=self.plan.stream,
            batch_id=batch_id,
            read=census.read,
            accepted=accepted,
            rejected=census.rejected,
            skipped=census.skipped,
            duplicate=census.duplicate + census.novel_accepted - accepted,
            unknown_fields=census.unknown_fields,
            version=committed.version if committed else None,
            seconds=0.0,
            marks=self.state.marks,
        )
        if report.difference:
            raise DataLoss(
                f"batch {batch_id} of {self.plan.stream} does not add up: {report}",
                "please report this; the marks stand",
            )
        self._counts = {
            "read": report.read,
            "accepted": report.accepted,
            "rejected": report.rejected,
            "skipped": report.skipped,
            "duplicate": report.duplicate,
        }
        return report
