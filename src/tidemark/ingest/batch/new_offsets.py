"""The records of a batch that are new to the table, by their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.marks import Marks
from tidemark.sink.ledger import LedgerState
from tidemark.sink.statements import Ranges, any_of, in_ranges, within

log = structlog.get_logger(__name__)

IS_NEW = "is_new"
"""BOOLEAN column of classified records: the offset is new, or the table decides. All others are duplicates."""


@dataclass(frozen=True)
class Bounds:
    """The offsets of a batch, by partition: [start, end)."""

    start: Marks
    end: Marks

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """Start and end of each partition that has offsets."""
        return {p: (self.start.at(p), end) for p, end in self.end.items() if end > self.start.at(p)}

    @property
    def offsets(self) -> int:
        """The number of offsets in all partitions: a batch has at most as many records."""
        return sum(end - start for start, end in self.ranges.values())


@dataclass(frozen=True)
class NewOffsets:
    """The offsets of one batch as the marks divide them.

    A partition is `fresh` from that offset on. In `uncertain` ranges the table decides, by coordinates. Other
    offsets are duplicates. Both are empty where every offset is fresh.
    """

    fresh: Mapping[int, int]
    uncertain: Ranges

    @property
    def all_fresh(self) -> bool:
        """Neither a filter nor a look at the table is needed."""
        return not self.fresh and not self.uncertain


def new_offsets_of(bounds: Bounds, state: LedgerState) -> NewOffsets:
    """The batch's offsets divided by the marks of `state`."""
    fresh: dict[int, int] = {}
    uncertain: dict[int, tuple[int, int]] = {}
    for p, (start, end) in bounds.ranges.items():
        mark, published, high_water = state.marks.at(p), state.published.at(p), state.high_water.at(p)
        fresh_from = max(mark, high_water)
        asked = (max(start, min(mark, published)), min(end, fresh_from))
        if asked[0] < asked[1]:
            uncertain[p] = asked
        fresh[p] = max(start, fresh_from)
    untouched = not uncertain and all(fresh[p] == start for p, (start, _) in bounds.ranges.items())
    found = NewOffsets({}, {}) if untouched else NewOffsets(fresh, uncertain)
    log.debug(
        "idempotency",
        start=dict(bounds.start),
        end=dict(bounds.end),
        marks=dict(state.marks),
        all_new=found.all_fresh,
        asked_of_the_table=dict(found.uncertain),
    )
    return found


def with_is_new(batch: DataFrame, new_offsets: NewOffsets) -> DataFrame:
    """The batch with `is_new` by its offsets; the stream has set it to true."""
    if new_offsets.all_fresh:
        return batch
    partition, offset = F.col(records.PARTITION), F.col(records.OFFSET)
    fresh = any_of([(partition == p) & (offset >= begin) for p, begin in new_offsets.fresh.items()])
    return batch.withColumn(IS_NEW, fresh | in_ranges(new_offsets.uncertain))


def not_landed(accepted: DataFrame, table: TableRef, topic_id: str, new_offsets: NewOffsets) -> DataFrame:
    """The records that the table does not have. Reads only files that cover the uncertain offsets."""
    if not new_offsets.uncertain:
        return accepted
    landed = landed_coordinates(accepted.sparkSession, table, topic_id, new_offsets.uncertain)
    keys = [F.col(f"a.{c}") == F.col(f"landed.{c}") for c in records.COORDINATES]
    return accepted.alias("a").join(landed.alias("landed"), keys, "left_anti")


def landed_coordinates(spark: SparkSession, table: TableRef, topic_id: str, ranges: Ranges) -> DataFrame:
    rows = spark.table(table.sql).alias("t")
    return rows.where(within(topic_id, ranges)).select(*records.COORDINATES)
