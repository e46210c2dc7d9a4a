"""Write errors that name a damaged record or a refused row: they are explained, and stop or restart the stream."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

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


def check_readable(error: Exception, stream: str) -> None:
    """Raises DataLoss, with partition and offset, where `error` names a record whose checksum is wrong: no
    retry fixes it, and no other reader gets past it. Returns for any other error.
    """
    for link in error_info_of(error).links:
        found = _DAMAGED.search(link.message)
        if found is not None:
            topic, partition, offset, why = found.groups()
            raise DataLoss(
                f"topic {topic} cannot be read at partition {partition}, offset {offset}:"
                f" {why.strip()[:200]}",
                "restore the partition from a replica or a backup; to go on without the damaged batch:"
                f" tidemark rewind --stream {stream} --to-offset {partition}=<the first offset behind it>",
            ) from error


def check_timestamps(error: Exception, plan: BatchPlan, bounds: Bounds) -> None:
    """Raises DataLoss, with partition and offset, where a record of the batch has a timestamp that Spark's reader
    cannot hold as microseconds, such as nanoseconds sent as milliseconds: it fails whatever reads the record.
    Returns for any other error.
    """
    links = error_info_of(error).links
    if not any(link.condition == _NO_TIMESTAMP or "long overflow" in link.message for link in links):
        return
    found = plan.admin.at_time(plan.topic, records.LAST_MILLIS + 1)
    # The broker knows the first such record of a partition alone, which one may have gone past already.
    inside = {p: found.at(p) for p, (first, end) in bounds.ranges.items() if first <= found.at(p) < end}
    if not inside:
        return
    stream = plan.stream.removesuffix(".landing")
    named = "; ".join(f"partition {p}, offset {o}" for p, o in inside.items())
    skipped = "".join(f" --to-offset {p}={o + 1}" for p, o in inside.items())
    before = "".join(f" --range {p}={bounds.start.at(p)}..{o}" for p, o in inside.items())
    raise DataLoss(
        f"topic {plan.topic.name} has a record whose timestamp is after the year 294246, which Spark cannot read:"
        f" {named}",
        f"go on behind it: tidemark rewind --stream {stream}{skipped}; then land what comes before it:"
        f" tidemark backfill --stream {stream}{before}; message.timestamp.after.max.ms of the topic refuses such"
        " records",
    ) from error


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
