"""A batch that its table refuses for one of its rows, though the rows were judged one by one."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidemark.contract.errors import NonRetriableError, RestartStream
from tidemark.contract.failures import in_one_line
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.resilience.error_info import error_info_of
from tidemark.sink import table as tables
from tidemark.streams.table_limits import limits_of

_VIOLATED = (
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
)


def check_constraints(error: Exception, spark: SparkSession, plan: BatchPlan, bounds: Bounds) -> None:
    """Raises RestartStream where the table's constraints are others than those that the rows were judged by:
    the next start knows them. Raises NonRetriableError where they are the same, so that no rule can tell the
    row. Returns where `error` is about something else.
    """
    told = [link.message for link in error_info_of(error).links if link.condition in _VIOLATED]
    if not told:
        return
    facts = tables.describe(spark, plan.table)
    decode = plan.decode
    if decode is not None and facts is not None and limits_of(spark, decode, facts) != decode.limits:
        raise RestartStream(f"the constraints of {plan.table} changed while the stream ran") from error
    ranges = "; ".join(f"partition {p}: offsets {a} to {b - 1}" for p, (a, b) in bounds.ranges.items())
    raise NonRetriableError(
        f"{plan.table} refuses a row of the batch ({ranges}): {in_one_line(told[0])}",
        "drop the constraint, or write it with functions of the stream's columns alone: then the record is"
        " rejected, and the others land",
    ) from error
