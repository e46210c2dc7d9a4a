"""Write errors that name a damaged record or a refused row: they are explained, and stop or restart the stream."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

from tidemark.config.stream import Mode
from tidemark.contract import records
from tidemark.contract.errors import DataLoss, NonRetriableError, RestartStream
from tidemark.contract.failures import in_one_line
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.resilience.error_info import error_info_of
from tidemark.sink import table as tables
from tidemark.streams.table_limits import limits_of

_DAMAGED = re.compile(
    r"Record (?:batch )?for partition (\S+)-(\d+) at offset (\d+) is invalid, cause: ([^\n]*)"
)
_NO_TIMESTAMP = "KAFKA_MALFORMED_RECORD_TIMESTAMP"
_VIOLATED = (
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
)


def check_readable(error: Exception, plan: BatchPlan, bounds: Bounds) -> None:
    """Raises DataLoss, with partition and offset, for a record that cannot be read: its checksum is wrong, or its
    timestamp is none that Spark's reader can hold. No retry fixes it, and no reader of Spark gets past it. Returns
    for any other error.
    """
    links = error_info_of(error).links
    for link in links:
        found = _DAMAGED.search(link.message)
        if found is not None:
            topic, partition, offset, why = found.groups()
            raise DataLoss(
                f"topic {topic} cannot be read at partition {partition}, offset {offset}:"
                f" {why.strip()[:200]}",
                "restore the partition from a replica or a backup; to go on without the damaged batch:"
                f" {plan.rewind} --to-offset {partition}=<the first offset behind it>",
            ) from error
    if any(link.condition == _NO_TIMESTAMP or "long overflow" in link.message for link in links):
        _check_timestamps(error, plan, bounds)


def _check_timestamps(error: Exception, plan: BatchPlan, bounds: Bounds) -> None:
    """For a timestamp that is too large in microseconds, such as nanoseconds sent as milliseconds."""
    found = plan.admin.at_time(plan.topic, records.LAST_MILLIS + 1)
    # The broker knows the first such record of a partition alone, which the marks may have passed already.
    inside = {p: found.at(p) for p, (first, end) in bounds.ranges.items() if first <= found.at(p) < end}
    passed = {p: (first, end) for p, (first, end) in bounds.ranges.items() if found.at(p) < first}
    if not inside and not passed:
        return
    named = [f"partition {p}, offset {o}" for p, o in inside.items()]
    if not inside:
        named = [f"partition {p}, one of the offsets {a} to {b - 1}" for p, (a, b) in passed.items()]
    raise DataLoss(
        f"topic {plan.topic.name} has a record whose timestamp is after the year 294246, which Spark cannot read:"
        f" {'; '.join(named)}",
        _behind(inside, plan, bounds),
    ) from error


def _behind(found: Mapping[int, int], plan: BatchPlan, bounds: Bounds) -> str:
    """How to go on behind these offsets without losing what comes before them."""
    options = plan.idempotency
    skipped = "".join(f" --to-offset {p}={o + 1}" for p, o in found.items()) or " --to-offset <behind it>"
    if not found or plan.decode is None or options.mode is Mode.FINGERPRINT or options.merge_keys:
        return (
            "lower processing.max-batch-size until the batch before the record lands, then go on behind it:"
            f" {plan.rewind}{skipped}"
        )
    before = "".join(f" --range {p}={bounds.start.at(p)}..{o}" for p, o in found.items())
    return (
        f"go on behind it: {plan.rewind}{skipped}; then land what comes before it, in this table alone:"
        f" tidemark backfill --stream {plan.stream}{before}"
    )


def check_constraints(error: Exception, spark: SparkSession, plan: BatchPlan, bounds: Bounds) -> None:
    """For a row that a constraint of the table refuses: raises RestartStream where the constraints changed
    since the query started, as the next start knows them; else NonRetriableError, as no rule can find the
    row. Returns for any other error.
    """
    violated = [link.message for link in error_info_of(error).links if link.condition in _VIOLATED]
    if not violated:
        return
    info = tables.describe(spark, plan.table)
    decode = plan.decode
    if decode is not None and info is not None and limits_of(spark, decode, info) != decode.limits:
        raise RestartStream(f"the constraints of {plan.table} changed while the stream ran") from error
    ranges = "; ".join(f"partition {p}: offsets {a} to {b - 1}" for p, (a, b) in bounds.ranges.items())
    raise NonRetriableError(
        f"{plan.table} refuses a row of the batch ({ranges}): {in_one_line(violated[0])}",
        "drop the constraint, or write it with functions of the stream's columns alone: then the record is"
        " rejected, and the others land",
    ) from error
