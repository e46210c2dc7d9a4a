"""A batch whose table is unavailable becomes dead letters as a whole: `on-exhausted: dead-letter`."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.errors import BreakerOpen, RetriesExhausted
from tidemark.contract.failure_codes import FailureCode
from tidemark.contract.failures import Action
from tidemark.contract.routes import Route
from tidemark.ingest.batch.counts import BatchCounts
from tidemark.ingest.batch.new_offsets import IS_NEW
from tidemark.ingest.batch.plan import BatchPlan

STAGE = "append"
_MESSAGE_LIMIT = 500


def may_dead_letter(plan: BatchPlan, error: RetriesExhausted | BreakerOpen) -> bool:
    """Whether the batch may be dead-lettered: the stream or the failure's rule allows it, the stream has a DLQ,
    and its checkpoint is not on the unavailable store. Never where the table only waits for another writer.
    """
    if plan.idempotency.merge_keys:
        # A version of an entity that is replayed later could not be distinguished from the newest one.
        return False
    if isinstance(error, RetriesExhausted) and error.decision.then is Action.RETRY:
        return False
    by_rule = plan.retry.classifier.classify(error).action is Action.DLQ
    wanted = by_rule or plan.processing.on_exhausted == "dead-letter"
    return wanted and plan.dead_letters is not None and not on_one_store(plan.table, plan.checkpoint.path)


def all_rejected(batch_counts: BatchCounts) -> BatchCounts:
    return replace(
        batch_counts,
        rejected=batch_counts.rejected + batch_counts.new_accepted,
        new_accepted=0,
        dead_letters=None,
    )


def with_accepted_as_rejected(routed: DataFrame, why: str) -> DataFrame:
    """The batch with its new accepted records rejected as DEPENDENCY_UNAVAILABLE, and so replayable.

    In and out: classified records with `is_new`. Uncertain records are among them, as the table cannot be
    asked: a replay that finds a record landed resolves its dead letter.
    """
    good = (F.col(records.ROUTE) == Route.ACCEPTED.value) & F.col(IS_NEW)
    failure = F.struct(
        F.lit(FailureCode.DEPENDENCY_UNAVAILABLE.value).alias("code"),
        F.lit(STAGE).alias("stage"),
        F.lit(why[:_MESSAGE_LIMIT]).alias("message"),
        F.lit(None).cast("string").alias("format"),
        F.array().alias("faults"),
    ).cast(records.FAILURE_DDL)
    return routed.withColumns(
        {
            records.FAILURE: F.when(good, failure).otherwise(F.col(records.FAILURE)),
            records.ROUTE: F.when(good, F.lit(Route.REJECTED.value)).otherwise(F.col(records.ROUTE)),
        }
    )


def on_one_store(table: TableRef, checkpoint: str) -> bool:
    """Whether checkpoint and table are on the same object store: then neither can be written in an outage.

    Local folders count as different stores, as the checkpoint was written a moment ago.
    """
    if table.path is None:
        return False
    one, other = urlsplit(table.path), urlsplit(checkpoint)
    return bool(one.netloc) and (_kind(one.scheme), one.netloc) == (_kind(other.scheme), other.netloc)


def _kind(scheme: str) -> str:
    return "s3" if scheme in ("s3", "s3a", "s3n") else scheme
