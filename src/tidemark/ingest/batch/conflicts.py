"""Records whose coordinates the table has with other content: they do not land, and raise an alarm."""

from __future__ import annotations

from functools import reduce
from operator import or_

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.config.stream import Mode
from tidemark.contract import records
from tidemark.contract.routes import Route
from tidemark.ingest.batch.new_offsets import IS_NEW, Bounds, NewOffsets
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.resilience.error_info import error_info_of
from tidemark.sink.statements import Ranges, quoted, within

log = structlog.get_logger(__name__)


def report_conflicts(
    routed: DataFrame, plan: BatchPlan, bounds: Bounds, new_offsets: NewOffsets, known: int
) -> int:
    """The number of accepted records whose coordinates the table has with other content.

    `known` records were left out as landed before; where it is 0, or the table was not asked, nothing is read.
    The rows are committed by then, so a failure here is a warning. In: classified records with `is_new`.
    """
    merges = plan.idempotency.mode is Mode.MERGE
    asked = bounds.ranges if merges else new_offsets.uncertain
    if known <= 0 or not asked or plan.idempotency.merge_keys:
        return 0
    try:
        found = _differing(routed, plan, asked).first()
    except PySparkException as error:
        log.warning("known records not compared", stream=plan.stream, error=error_info_of(error).summary)
        return 0
    if found is None or not found["number"]:
        return 0
    log.error(
        "records differ from the rows that the table has under their coordinates; the rows stay",
        stream=plan.stream,
        table=str(plan.table),
        records=found["number"],
        first=f"{plan.topic.name}:{found['first']['partition']}:{found['first']['offset']}",
    )
    return int(found["number"])


def _differing(routed: DataFrame, plan: BatchPlan, asked: Ranges) -> DataFrame:
    """One row: `number`, and `first` STRUCT<partition, offset>."""
    spark = routed.sparkSession
    landed = spark.table(plan.table.sql).alias("t").where(within(plan.topic.id, asked))
    accepted = routed.where((F.col(records.ROUTE) == Route.ACCEPTED.value) & F.col(IS_NEW))
    rows = accepted.select("row.*").alias("s")
    same_place = [F.col(f"t.{c}") == F.col(f"s.{c}") for c in records.COORDINATES]
    place = F.struct(
        F.col(f"s.{records.PARTITION}").alias("partition"), F.col(f"s.{records.OFFSET}").alias("offset")
    )
    types = {f.name: f.dataType for f in landed.schema.fields}
    differs = reduce(or_, [_differs(c, types[c]) for c in _content(plan) if c in types])
    return (
        landed.join(rows, same_place)
        .where(differs)
        .agg(F.count(F.lit(1)).alias("number"), F.min(place).alias("first"))
    )


def _content(plan: BatchPlan) -> list[str]:
    """Columns that come from the record alone: a newer configuration may derive others differently."""
    if plan.decode is None:
        return [records.TIMESTAMP, records.KEY, records.PAYLOAD]
    return [records.TIMESTAMP, *(f.column for f in plan.decode.fields)]


def _differs(column: str, kind: T.DataType) -> Column:
    """A NULL in the table is not a difference: the column may be newer than the row."""
    landed, now = F.col(f"t.{quoted(column)}"), F.col(f"s.{quoted(column)}")
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
        # Maps cannot be compared.
        landed, now = F.to_json(F.struct(landed)), F.to_json(F.struct(now))
    return F.col(f"t.{quoted(column)}").isNotNull() & ~landed.eqNullSafe(now)
