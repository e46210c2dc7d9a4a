"""The idempotency modes: a stage before the batch, and how accepted rows are written."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.serverless import CLASSIC_OR_NATIVE, NEEDS
from tidemark.config.stream import Mode
from tidemark.contract import records
from tidemark.contract.errors import ConfigError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.contract.routes import Route
from tidemark.ingest.batch.new_offsets import IS_NEW, Bounds, NewOffsets, not_landed
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.idempotency.fingerprints import drop_seen, not_landed_as_copy
from tidemark.ingest.idempotency.upserts import versions, with_tombstones
from tidemark.platform.capabilities import keeps_rows, takes_settings
from tidemark.platform.state_store import use_rocksdb
from tidemark.sink.append import Committed, append
from tidemark.sink.merge import Entity, insert, upsert
from tidemark.streams.target import Target


def before_the_batch(spark: SparkSession, classified: DataFrame, target: Target) -> DataFrame:
    """The mode's stage on the streaming frame. In: classified records. Out: the same with `is_new`, true.

    Raises ConfigError where the compute cannot run the mode.
    """
    options = target.idempotency
    _check_compute(spark, target)
    if options.mode is Mode.FINGERPRINT:
        use_rocksdb(spark)
        classified = drop_seen(classified, options)
    elif options.merge_keys:
        classified = with_tombstones(classified, target.schema, options.merge_keys)
    # Here, within the stream's last projection, the column costs no copy of each row.
    return classified.withColumn(IS_NEW, F.lit(True))


def _check_compute(spark: SparkSession, target: Target) -> None:
    mode = target.idempotency.mode
    if mode is Mode.KAFKA_NATIVE:
        return
    if not takes_settings(spark) or (mode is Mode.FINGERPRINT and not keeps_rows(spark)):
        raise ConfigError(
            f"{target.name}: this compute cannot run idempotency.mode {mode}: {NEEDS[mode]}",
            CLASSIC_OR_NATIVE,
        )


def write(
    plan: BatchPlan, routed: DataFrame, ledger_commit: LedgerCommit, bounds: Bounds, new_offsets: NewOffsets
) -> Committed:
    """The new accepted rows of a batch as one ledger commit; guarantees and errors of `sink.append.append`.

    In: classified records with `is_new`.
    """
    options = plan.idempotency
    if options.merge_keys:
        entity = Entity(options.merge_keys, options.order_by)
        return upsert(versions(routed), plan.table, ledger_commit, entity)
    accepted = routed.where((F.col(records.ROUTE) == Route.ACCEPTED.value) & F.col(IS_NEW))
    if options.mode is Mode.MERGE:
        return insert(accepted.select("row.*"), plan.table, ledger_commit, bounds.ranges)
    new = not_landed(accepted, plan.table, plan.topic.id, new_offsets)
    if options.mode is Mode.FINGERPRINT:
        new = not_landed_as_copy(new, plan, new_offsets)
    return append(new.select("row.*"), plan.table, ledger_commit)
