"""What one pass over a batch observes: counts by route, and the rejected records within bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.routes import Route
from tidemark.dead_letters.topic import REJECTED_COLUMNS
from tidemark.ingest.batch.new_offsets import IS_NEW
from tidemark.platform.capabilities import observes_smallest
from tidemark.platform.session import over_connect
from tidemark.transform.content import headers_size, octets
from tidemark.transform.decode.scalar import LAST_MICROS

LARGEST_CARRIED_BYTES = 4096
_CARRIED_BYTES_IN_ALL = 64 * 1024 * 1024
_WAIT_S = 30.0
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class BatchCounts:
    """Counts of one batch. `dead_letters`: the rejected records, or None where they have to be read again,
    because there are too many, one is too large, or this Spark cannot carry them along. Their timestamps are
    microseconds: Python has no year after 9999, and a producer may send microseconds as milliseconds.
    `newest`: the highest record timestamp, UTC, at most the end of that year.
    """

    read: int
    new_accepted: int
    rejected: int
    skipped: int
    duplicate: int
    unknown_fields: int
    dead_letters: list[Row] | None
    newest: datetime | None = None


def dead_letters_carried(asked: int, tasks: int) -> int:
    """How many rejected records of a batch may be carried along. Each task can have as many, so that what all of
    them send fits the driver's result size; the driver keeps no more than these.
    """
    return max(1, min(asked, _CARRIED_BYTES_IN_ALL // (LARGEST_CARRIED_BYTES * max(1, tasks))))


def observe(batch: DataFrame, observation: Observation, *, carried: int) -> DataFrame:
    """The batch with an observation. In: classified records with `is_new`."""
    spark = batch.sparkSession
    columns = _observed(carried, smallest=observes_smallest(spark), remote=over_connect(spark))
    return batch.observe(observation, *columns)


@lru_cache(maxsize=16)
def _observed(carried: int, *, smallest: bool, remote: bool) -> tuple[Column, ...]:
    """Built once, for a session of this process or a remote one: the three hundred calls to the JVM that it takes
    are a tenth of a small batch.

    Observed expressions take no FILTER clause, and min_by ignores rows whose order is NULL.
    """
    route, is_new = F.col(records.ROUTE), F.col(IS_NEW)
    rejected = is_new & (route == Route.REJECTED.value)

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, F.lit(1)))

    order = F.when(rejected, F.struct(F.col(records.PARTITION), F.col(records.OFFSET)))
    too_large = _size() > LARGEST_CARRIED_BYTES
    dead_letter = F.struct(
        *[
            F.when(~too_large, F.col(c)).alias(c) if c in _SIZED else _carried(c).alias(c)
            for c in REJECTED_COLUMNS
        ],
        too_large.alias("left_out"),
    )
    dead_letters = []
    if smallest:
        dead_letters.append(F.min_by(F.when(rejected, dead_letter), order, carried).alias("letters"))
    return (
        F.count(F.lit(1)).alias("read"),
        count(is_new & (route == Route.ACCEPTED.value)).alias("accepted"),
        count(rejected).alias("rejected"),
        count(route == Route.SKIPPED.value).alias("skipped"),
        count(~is_new & (route != Route.SKIPPED.value)).alias("duplicate"),
        F.coalesce(F.sum(F.col(records.UNKNOWN_FIELDS)), F.lit(0)).alias("unknown_fields"),
        F.max(F.unix_micros(records.TIMESTAMP)).alias("newest"),
        *dead_letters,
    )


def batch_counts_of(observation: Observation) -> BatchCounts | None:
    """The observed counts, or None after 30 s: the observation of a write that never ran blocks."""
    found: dict[str, Any] = {}

    def wait() -> None:
        try:
            found.update(observation.get)
        except Exception as error:
            found["error"] = error

    waiting = threading.Thread(target=wait, daemon=True, name="tidemark-observation")
    waiting.start()
    waiting.join(_WAIT_S)
    if "read" not in found:
        return None
    return _batch_counts(found, _dead_letters(found.get("letters"), found["rejected"]))


def recount(batch: DataFrame) -> BatchCounts:
    """The same counts by a pass of its own, where the observation cannot be trusted."""
    observation = Observation()
    observe(batch, observation, carried=1).count()
    return _batch_counts(observation.get, None)


def _batch_counts(found: Mapping[str, Any], dead_letters: list[Row] | None) -> BatchCounts:
    return BatchCounts(
        read=found["read"],
        new_accepted=found["accepted"],
        rejected=found["rejected"],
        skipped=found["skipped"],
        duplicate=found["duplicate"],
        unknown_fields=found["unknown_fields"],
        dead_letters=dead_letters,
        newest=_moment(found["newest"]),
    )


def _moment(micros: int | None) -> datetime | None:
    if micros is None:
        return None
    return _EPOCH + timedelta(microseconds=min(micros, LAST_MICROS))


def _carried(name: str) -> Column:
    return F.unix_micros(name) if name == records.TIMESTAMP else F.col(name)


_OF_A_HEADER = 32
"""Bytes that a header takes in memory besides its name and value: a record of a megabyte may have half a million."""
_SIZED = (records.KEY, records.PAYLOAD, records.HEADERS, records.FAILURE)


def _size() -> Column:
    """Bytes of a rejected record and of the reason of its rejection."""
    reason = F.to_json(F.col(records.FAILURE))  # of many faults it is longer than the record
    parts = [octets(part) for part in (F.col(records.KEY), F.col(records.PAYLOAD), reason)]
    return parts[0] + parts[1] + parts[2] + headers_size(of_each=_OF_A_HEADER)


def _dead_letters(carried: list[Row] | None, rejected: int) -> list[Row] | None:
    # A stage that ran twice reports a record twice.
    unique = {(r[records.PARTITION], r[records.OFFSET]): r for r in carried or []}
    if len(unique) != rejected or any(r["left_out"] for r in unique.values()):
        return None
    return list(unique.values())
