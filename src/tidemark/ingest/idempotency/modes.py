"""What `idempotency.mode` changes: a stage before the batch, and how accepted rows are written."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.serverless import CLASSIC_OR_NATIVE, NEEDS
from tidemark.config.stream import Idempotency, Mode
from tidemark.contract import records
from tidemark.contract.errors import ConfigError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.contract.routes import Route
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets, not_landed
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.idempotency.fingerprints import drop_seen, not_landed_as_copy
from tidemark.ingest.idempotency.upserts import versions, with_tombstones
from tidemark.platform.capabilities import keeps_rows, takes_settings
from tidemark.platform.state_store import use_rocksdb
from tidemark.sink.append import Committed, append
from tidemark.sink.merge import Entity, insert, upsert
from tidemark.streams.target import Target


def idempotency_of(target: Target) -> Idempotency:
    """The mode of one table. A raw landing table holds every record that the topic has, as it is: its
    records have no columns to merge by, and a copy is a record too.
    """
    return target.stream.idempotency if target.decode is not None else Idempotency()


def before_the_batch(spark: SparkSession, classified: DataFrame, target: Target) -> DataFrame:
    """The mode's stage on the streaming frame. In and out: classified records.

    Raises ConfigError where the compute cannot run the mode.
    """
    options = idempotency_of(target)
    _check_can(spark, target, options)
    if options.mode is Mode.FINGERPRINT:
        use_rocksdb(spark)
        return drop_seen(classified, options)
    if options.merge_keys:
        return with_tombstones(classified, target.schema, options.merge_keys)
    return classified


def _check_can(spark: SparkSession, target: Target, options: Idempotency) -> None:
    if options.mode is Mode.KAFKA_NATIVE:
        return
    if not takes_settings(spark) or (options.mode is Mode.FINGERPRINT and not keeps_rows(spark)):
        raise ConfigError(
            f"{target.name}: this compute cannot run idempotency.mode {options.mode}: {NEEDS[options.mode]}",
            CLASSIC_OR_NATIVE,
        )


def write(
    plan: BatchPlan, routed: DataFrame, ledger_commit: LedgerCommit, bounds: Bounds, new_offsets: NewOffsets
) -> Committed:
    """The new accepted rows of a batch as one ledger commit; see `sink.append.append` for what it guarantees.

    In: classified records with `novel`.
    """
    options = plan.idempotency
    if options.merge_keys:
        entity = Entity(options.merge_keys, options.order_by)
        return upsert(versions(routed), plan.table, ledger_commit, entity)
    accepted = routed.where((F.col(records.ROUTE) == Route.ACCEPTED.value) & F.col("is_new"))
    if options.mode is Mode.MERGE:
        return insert(accepted.select("row.*"), plan.table, ledger_commit, bounds.ranges)
    new = not_landed(accepted, plan.table, plan.topic.id, new_offsets)
    if options.mode is Mode.FINGERPRINT:
        new = not_landed_as_copy(new, plan, new_offsets)
    return append(new.select("row.*"), plan.table, ledger_commit)
