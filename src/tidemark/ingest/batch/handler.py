"""One micro-batch: `_land` is its order of effects, from top to bottom.

Long because the order of effects, and what is done about a failure between two of them, stay together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from pyspark.sql import DataFrame

from tidemark.config.stream import Mode
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import BreakerOpen, DataLoss, NonRetriableError, RetriesExhausted, TidemarkError
from tidemark.contract.events import BatchFailed, StreamObserver
from tidemark.contract.failpoints import failpoint
from tidemark.contract.marks import Marks
from tidemark.dead_letters.topic_setup import recreate_if_deleted
from tidemark.ingest.availability import DEAD_LETTERS, TABLE
from tidemark.ingest.batch.append import AcceptedRows, Landed
from tidemark.ingest.batch.counts import BatchCounts, recount
from tidemark.ingest.batch.event_relay import with_observers
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets, new_offsets_of, with_is_new
from tidemark.ingest.batch.outage import all_rejected, may_dead_letter, with_accepted_as_rejected
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.batch.rejected import publish_rejected
from tidemark.ingest.batch.schema_ids import check_schema_ids
from tidemark.ingest.idempotency.fingerprints import check_clock, counted
from tidemark.ingest.observers import Observers
from tidemark.platform.kept_rows import kept
from tidemark.resilience.error_info import error_info_of

log = structlog.get_logger(__name__)


@dataclass
class IngestBatch:
    """The `foreachBatch` handler of one query: lands a batch as a whole, or raises.

    Running a batch again, after a crash at any point, neither loses nor doubles a record.
    In: classified records (`transform.transform`), or for a landing table the envelope with `row`; with
    `is_new` (`modes.before_the_batch`). Pickles without its last failure and without the observers of this
    process.
    """

    plan: BatchPlan
    ledger: HeldLedger
    observers: StreamObserver = field(default_factory=Observers)
    failure: BaseException | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "failure": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, plan=with_observers(state["plan"], state["observers"]))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Every log line about the batch carries `stream/batch` as its correlation id."""
        with structlog.contextvars.bound_contextvars(correlation_id=f"{self.plan.stream}/{batch_id}"):
            self._run(batch, batch_id)

    def _run(self, batch: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        try:
            with self.ledger.busy:
                report = self._land(batch, batch_id)
        except Exception as error:
            self.failure = error
            decision, summary = self.plan.retry.classifier.classify(error), error_info_of(error).summary
            failed = BatchFailed(self.plan.stream, batch_id, decision.scope, decision.category, summary)
            self.observers.emit(failed)
            raise
        report = replace(report, seconds=time.monotonic() - began)
        log.info(
            "batch landed",
            stream=report.stream,
            batch=batch_id,
            **self.ledger.counts,
            version=report.version,
            seconds=round(report.seconds, 3),
        )
        self.observers.emit(report)

    def _land(self, batch: DataFrame, batch_id: int) -> BatchReport:
        failpoint("batch-start")
        plan = self.plan
        bounds = self._bounds(batch_id)
        self._check_topic()
        if plan.idempotency.mode is Mode.FINGERPRINT:
            check_clock(plan.checkpoint, batch_id, plan.idempotency)
            # The state store must see the batch once, however often the batch is read.
            batch = kept(batch, eager=False)
        check_schema_ids(batch, plan, bounds)
        routed, landed = plan.availability.retry_until_available(
            TABLE,
            lambda: self._to_table(batch, batch_id, bounds),
            otherwise=lambda error: self._to_dead_letters(batch, bounds, error),
        )
        self._check_topic()
        copies = None
        if plan.idempotency.mode is Mode.FINGERPRINT:
            batch_counts = counted(batch.sparkSession, landed.batch_counts, plan, bounds)
            copies = batch_counts.read - landed.batch_counts.read
            landed = replace(landed, batch_counts=batch_counts)
        report = replace(self._report(batch_id, landed), copies=copies)
        if landed.failures is None and landed.batch_counts.rejected and plan.dead_letters is not None:
            self._check_bad_share(landed.batch_counts)
            report = replace(report, failures=self._publish(routed, landed.batch_counts))
        self.ledger.published_up_to(bounds.end, landed=landed.failures is None)
        self._commit_group(bounds)
        failpoint("after-group-commit")
        return replace(report, ends=self._ends())

    def _bounds(self, batch_id: int) -> Bounds:
        checkpoint = self.plan.checkpoint
        end = checkpoint.planned(batch_id)
        start = checkpoint.planned(batch_id - 1) if batch_id > 0 else self.plan.start
        return Bounds(start, end)

    def _check_topic(self) -> None:
        topic = self.plan.topic
        now = self.plan.retry.call(lambda: self.plan.admin.find(topic.name), step="look at the topic")
        if now is None or now.id != topic.id:
            raise NonRetriableError(
                f"topic {topic.name} was {'deleted' if now is None else 'deleted and created again'}"
                f" while the stream read it (id {topic.id}, now {now.id if now else 'none'})",
                "start the stream again: it lands the new topic from its beginning",
            )

    def _to_table(self, batch: DataFrame, batch_id: int, bounds: Bounds) -> tuple[DataFrame, Landed]:
        """Steps 1 to 3. Reads the ledger again first, to notice a RESTORE or another writer."""
        plan, ledger = self.plan, self.ledger
        plan.retry.call(lambda: ledger.refresh(batch.sparkSession), step=f"read the log of {plan.table}")
        ledger.check_joins(bounds)
        if bounds.end <= ledger.state.resume and not ledger.state.recovering:
            # All of it landed and was published before: nothing is written, every record is a duplicate.
            read = batch.count()
            return batch, Landed(BatchCounts(read, 0, 0, 0, read, 0, []))
        new_offsets = new_offsets_of(bounds, ledger.state)
        routed = with_is_new(batch, new_offsets)
        return routed, self._append(routed, batch_id, bounds, new_offsets)

    def _append(self, routed: DataFrame, batch_id: int, bounds: Bounds, new_offsets: NewOffsets) -> Landed:
        return AcceptedRows(self.plan, self.ledger, routed, batch_id, bounds, new_offsets).land()

    def _to_dead_letters(
        self, batch: DataFrame, bounds: Bounds, error: RetriesExhausted | BreakerOpen
    ) -> tuple[DataFrame, Landed] | None:
        """The table is unavailable: the whole batch to the DLQ topic, if it may and can be written; else None."""
        plan = self.plan
        if not may_dead_letter(plan, error):
            return None
        self.ledger.check_joins(bounds)
        routed = with_is_new(batch, new_offsets_of(bounds, self.ledger.state))
        batch_counts = recount(routed)
        self._check_bad_share(batch_counts)
        rejected = all_rejected(batch_counts)
        refused = with_accepted_as_rejected(routed, error_info_of(error).summary)
        try:
            failures = plan.availability.attempt(DEAD_LETTERS, lambda: self._publish_once(refused, rejected))
        except (RetriesExhausted, BreakerOpen) as also:
            log.warning("neither table nor DLQ can be written", stream=plan.stream, error=also.message)
            return None
        log.warning(
            "batch dead-lettered, as its table is unavailable", stream=plan.stream, records=rejected.rejected
        )
        return routed, Landed(rejected, failures=failures)

    def _check_bad_share(self, batch_counts: BatchCounts) -> None:
        """Before the first dead letter is sent. The rejected records stay between published and marks, so
        they are decoded again after the fix, and the valid ones land then.
        """
        most = self.plan.processing.max_bad_share
        if most is not None and batch_counts.read and batch_counts.rejected / batch_counts.read > most:
            raise NonRetriableError(
                f"{batch_counts.rejected} of {batch_counts.read} records of {self.plan.stream} are bad, more than"
                f" max-bad-share {most:g}; none of them was published",
                "fix the schema or the producer and start again: they are decoded again then;"
                " or raise processing.max-bad-share to dead-letter them",
            )

    def _publish(self, routed: DataFrame, batch_counts: BatchCounts) -> Mapping[str, int]:
        """Step 4. The accepted rows are in the table already, so there is no way but to wait for the DLQ."""
        failpoint("before-publish")
        failures = self.plan.availability.retry_until_available(
            DEAD_LETTERS, lambda: self._publish_once(routed, batch_counts)
        )
        failpoint("after-publish")
        return failures

    def _publish_once(self, routed: DataFrame, batch_counts: BatchCounts) -> Mapping[str, int]:
        dead_letters = self.plan.dead_letters
        assert dead_letters is not None

        def publish() -> Mapping[str, int]:
            failpoint("publish")
            try:
                return publish_rejected(routed, batch_counts, dead_letters)
            except Exception:
                recreate_if_deleted(dead_letters, self.plan.admin)
                raise

        return self.plan.retry.call(publish, step="publish dead letters")

    def _commit_group(self, bounds: Bounds) -> None:
        """For lag tools. A failure is a warning and never stops the stream."""
        try:
            before = self.plan.group.commit(self.plan.topic.name, bounds.end)
        except TidemarkError as error:
            log.warning("group offsets not committed", stream=self.plan.stream, error=error.message)
            return
        back = {p: r for p, r in before.behind(bounds.start).items() if p in before}
        if back:
            log.warning(
                "group offsets were set back; ignored, as the table's marks decide where a stream resumes",
                stream=self.plan.stream,
                partitions=back,
                to_move_the_marks=self.plan.rewind,
            )

    def _ends(self) -> Marks | None:
        try:
            return self.plan.admin.ends(self.plan.topic)
        except TidemarkError as error:
            log.warning("end offsets not known", stream=self.plan.stream, error=error.message)
            return None

    def _report(self, batch_id: int, landed: Landed) -> BatchReport:
        batch_counts, committed = landed.batch_counts, landed.committed
        accepted = committed.rows if committed else 0
        report = BatchReport(
            stream=self.plan.stream,
            batch_id=batch_id,
            read=batch_counts.read,
            accepted=accepted,
            rejected=batch_counts.rejected,
            skipped=batch_counts.skipped,
            duplicate=batch_counts.duplicate + batch_counts.new_accepted - accepted,
            unknown_fields=batch_counts.unknown_fields,
            version=committed.version if committed else None,
            marks=self.ledger.state.marks,
            commit_seconds=landed.seconds,
            failures=landed.failures or {},
            newest=batch_counts.newest,
            files_written=committed.files if committed else 0,
            bytes_written=committed.bytes if committed else 0,
            conflicts=landed.conflicts,
        )
        if report.difference:
            raise DataLoss(
                f"batch {batch_id} of {self.plan.stream} does not add up: {report}",
                "please report this; the marks stand",
            )
        routes = ("read", "accepted", "rejected", "skipped", "duplicate")
        self.ledger.counts = {name: getattr(report, name) for name in routes}
        return report
