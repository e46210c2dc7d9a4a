"""`idempotency.mode: fingerprint`: a record whose content landed before, at another offset, is a duplicate.

The memory is the state of Spark's own `dropDuplicatesWithinWatermark`, and part of the query's checkpoint.
Its time is that of arrival, so a record's own timestamp never makes it late.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.stream import Idempotency
from tidemark.contract import records
from tidemark.contract.dead_letters import REPLAYED_FROM
from tidemark.contract.errors import DataLoss, RestartStream
from tidemark.contract.marks import Marks
from tidemark.contract.routes import Route
from tidemark.ingest.batch.counts import BatchCounts
from tidemark.ingest.batch.new_offsets import Bounds, NewOffsets, landed_coordinates
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.source.checkpoint import BatchClock, Checkpoint
from tidemark.source.reader import read_range
from tidemark.transform.content import FINGERPRINT, content_hash, coordinates_hash, headers_or_empty

_ARRIVED = "arrived"


def drop_seen(classified: DataFrame, options: Idempotency) -> DataFrame:
    """Drop accepted records whose content was accepted in the retention window. Streaming frames only.

    In: classified records. Out: the same with `fingerprint`. Rejected and skipped records are neither dropped
    nor remembered, nor are dead letters that were published again, which a header marks.

    An entry expires when a batch comes at least `retention` after it, by the clock of the batches, which is
    rounded down to `cleanup-interval`: each step of the clock costs one batch that cleans up.
    """
    keyed = classified.withColumns({_ARRIVED: _arrived(options), FINGERPRINT: _key(options)})
    delay = f"{delay_ms(options)} milliseconds"
    return keyed.withWatermark(_ARRIVED, delay).dropDuplicatesWithinWatermark([FINGERPRINT]).drop(_ARRIVED)


def delay_ms(options: Idempotency) -> int:
    """The watermark's delay. Spark keeps an entry twice as long, once beyond its arrival and once as the
    watermark's distance, and the clock may be rounded down by one interval.
    """
    return (_ms(options.retention) + _interval_ms(options) + 1) // 2


def counted(spark: SparkSession, batch_counts: BatchCounts, plan: BatchPlan, bounds: Bounds) -> BatchCounts:
    """The batch counts, with the records that `drop_seen` dropped added as duplicates.

    Spark does not report in time how many it dropped. As many records as offsets: none. Otherwise the
    batch's records are read again and counted, without decoding (offsets have holes).
    """
    if batch_counts.read == bounds.offsets:
        return batch_counts
    end = Marks({p: end for p, (_, end) in bounds.ranges.items()})
    batch = read_range(spark, plan.admin.kafka, plan.topic, start=bounds.start, end=end)
    read = plan.retry.call(batch.count, step="count the records of the batch")
    dropped = read - batch_counts.read
    if dropped < 0:
        raise DataLoss(
            f"a batch of {plan.stream} has {batch_counts.read} records, but the topic only {read} in its place",
            "please report this; the marks stand",
        )
    return replace(batch_counts, read=read, duplicate=batch_counts.duplicate + dropped)


def not_landed_as_copy(accepted: DataFrame, plan: BatchPlan, new_offsets: NewOffsets) -> DataFrame:
    """Drops records of which the table has a copy from the uncertain offsets.

    Of two copies in one batch either may be the first, so when the batch runs again the other one may
    have been dropped. Which contents landed is found by reading the landed coordinates from the topic again.
    """
    if not new_offsets.uncertain:
        return accepted
    ranges = new_offsets.uncertain
    again = read_range(
        accepted.sparkSession,
        plan.admin.kafka,
        plan.topic,
        start=Marks({p: start for p, (start, _) in ranges.items()}),
        end=Marks({p: end for p, (_, end) in ranges.items()}),
    ).select(*records.COORDINATES, content_hash(plan.idempotency.content).alias(FINGERPRINT))
    landed = landed_coordinates(accepted.sparkSession, plan.table, plan.topic.id, ranges)
    copies = again.join(landed, list(records.COORDINATES), "left_semi").select(FINGERPRINT)
    return accepted.join(copies, FINGERPRINT, "left_anti")


def check_clock(checkpoint: Checkpoint, batch_id: int, options: Idempotency) -> None:
    """Raises RestartStream where the clock went back so far that Spark would drop new records as late."""
    if _went_back(checkpoint.clock(batch_id), options):
        raise RestartStream("the clock went back: new records would be dropped as late ones")


def memory_problem(checkpoint: Checkpoint, options: Idempotency, *, now_ms: int) -> str | None:
    """Why a fresh checkpoint, which remembers nothing, is better than this one; or None.

    Where nothing came for the whole retention, all contents have expired; Spark itself expires them only with
    the next record.
    """
    clock = checkpoint.clock()
    if _went_back(clock, options):
        return "the clock went back"
    if clock is not None and clock.planned_ms + _ms(options.retention) < now_ms:
        return "all that it remembers has expired"
    return None


def _went_back(clock: BatchClock | None, options: Idempotency) -> bool:
    if clock is None:
        return False
    interval = _interval_ms(options)
    return clock.planned_ms - clock.planned_ms % interval <= clock.watermark_ms


def _key(options: Idempotency) -> Column:
    replayed = F.exists(headers_or_empty(), lambda h: h["name"] == REPLAYED_FROM)
    compared = (F.col(records.ROUTE) == Route.ACCEPTED.value) & ~replayed
    return F.when(compared, content_hash(options.content)).otherwise(coordinates_hash())


def _arrived(options: Idempotency) -> Column:
    """The batch's own clock, the same whenever it runs, rounded down to the clean-up interval."""
    now, step = F.unix_millis(F.current_timestamp()), F.lit(_interval_ms(options))
    return F.timestamp_millis(now - F.pmod(now, step))


def _interval_ms(options: Idempotency) -> int:
    return max(1, _ms(options.cleanup_interval))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
