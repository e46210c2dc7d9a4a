"""Which records of a batch are new to the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.marks import Marks
from tidemark.sink.ledger import LedgerState

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Bounds:
    """A batch's offsets per partition: [start, end)."""

    start: Marks
    end: Marks

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(p for p in self.end if self.end[p] > self.start.at(p))

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """Start and end of each partition that has any."""
        return {p: (self.start.at(p), self.end[p]) for p in self.partitions}

    @property
    def offsets(self) -> int:
        """Of all partitions: a batch holds at most so many records."""
        return sum(end - start for start, end in self.ranges.values())


@dataclass(frozen=True)
class NewOffsets:
    """What the marks say about the offsets of one batch.

    A partition is `fresh` from its mark on. Offsets in `undecided` ranges are neither surely new nor
    surely landed: the table decides, by coordinates. What lies below both is a duplicate.
    """

    fresh: Mapping[int, int]
    uncertain: Mapping[int, tuple[int, int]]

    @property
    def all_fresh(self) -> bool:
        """Every record is new: no filter, no look at the table."""
        return not self.fresh and not self.uncertain

    def is_fresh(self) -> Column:
        return _any(
            [(F.col(records.PARTITION) == p) & (F.col(records.OFFSET) >= o) for p, o in self.fresh.items()]
        )

    def is_uncertain(self) -> Column:
        return _any([_within(p, *r) for p, r in self.uncertain.items()])


def new_offsets_of(bounds: Bounds, state: LedgerState) -> NewOffsets:
    """Split the batch's offsets by the marks. Partitions whose offsets are all new are left to `fresh`
    from the batch's start; where that is so of every partition the result is `all_fresh`.
    """
    fresh: dict[int, int] = {}
    uncertain: dict[int, tuple[int, int]] = {}
    for p in bounds.partitions:
        start, end = bounds.start.at(p), bounds.end[p]
        mark, published, high_water = state.marks.at(p), state.published.at(p), state.high_water.at(p)
        fresh_from = max(mark, high_water)
        asked = (max(start, min(mark, published)), min(end, fresh_from))
        if asked[0] < asked[1]:
            uncertain[p] = asked
        fresh[p] = max(start, fresh_from)
    untouched = not uncertain and all(fresh[p] == bounds.start.at(p) for p in bounds.partitions)
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


def all_taken_as_new(classified: DataFrame) -> DataFrame:
    """Adds `novel`, true, to a stream: within its last projection this costs no copy of each row."""
    return classified.withColumn("is_new", F.lit(True))


def with_is_new(batch: DataFrame, new_offsets: NewOffsets) -> DataFrame:
    """Decides `novel` BOOLEAN (new, or for the table to decide); what is not novel is a duplicate."""
    if new_offsets.all_fresh:
        return batch
    return batch.withColumn("is_new", new_offsets.is_fresh() | new_offsets.is_uncertain())


def not_landed(accepted: DataFrame, table: TableRef, topic_id: str, new_offsets: NewOffsets) -> DataFrame:
    """Leaves out records that the table has already. Reads only files that cover the uncertain offsets."""
    if not new_offsets.uncertain:
        return accepted
    landed = landed_coordinates(accepted.sparkSession, table, topic_id, new_offsets.uncertain)
    keys = [F.col(f"a.{c}") == F.col(f"landed.{c}") for c in records.COORDINATES]
    return accepted.alias("a").join(landed.alias("landed"), keys, "left_anti")


def landed_coordinates(
    spark: SparkSession, table: TableRef, topic_id: str, ranges: Mapping[int, tuple[int, int]]
) -> DataFrame:
    within = _any([_within(p, *r) for p, r in ranges.items()])
    return (
        spark.table(table.sql)
        .where((F.col(records.TOPIC_ID) == topic_id) & within)
        .select(*records.COORDINATES)
    )


def _within(partition: int, start: int, end: int) -> Column:
    offset = F.col(records.OFFSET)
    return (F.col(records.PARTITION) == partition) & (offset >= start) & (offset < end)


def _any(conditions: list[Column]) -> Column:
    # Halves, not a chain: thousands of partitions would nest too deep for the analyser.
    if not conditions:
        return F.lit(False)
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return _any(conditions[:middle]) | _any(conditions[middle:])
