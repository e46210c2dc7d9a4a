"""Lists of dead letters: counts, or pages without their payloads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.contract.dead_letters import DEAD_LETTER_ID
from tidemark.dead_letters.files import collectable

_MICROS = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Tally:
    """The number of dead letters of one code and status. Named as the columns."""

    failure_code: str
    status: str
    letters: int
    newest: datetime | None


@dataclass(frozen=True)
class Listed:
    """One dead letter without its bytes. Named as the columns."""

    letter_id: str
    stream_topic: str
    stream_partition: int
    stream_offset: int
    failure_code: str
    failure_stage: str | None
    failure_message: str | None
    failed_at: datetime | None
    status: str
    attempts: int


@dataclass(frozen=True)
class Place:
    """A dead letter's place in the list, newest first: when it failed (microseconds of Unix time), its id."""

    micros: int | None
    dead_letter: str

    def __str__(self) -> str:
        return f"{'' if self.micros is None else self.micros}~{self.dead_letter}"

    @classmethod
    def of(cls, text: str) -> Place | None:
        """None where the text is invalid."""
        micros, _, dead_letter = text.partition("~")
        if not dead_letter or (micros and _MICROS.fullmatch(micros) is None):
            return None
        return cls(int(micros) if micros else None, dead_letter)

    def is_behind(self) -> Column:
        """Whether a dead letter follows this place. In: `failed_at`, `letter_id`."""
        at, behind = F.unix_micros("failed_at"), F.col(DEAD_LETTER_ID) > self.dead_letter
        if self.micros is None:
            return at.isNull() & behind
        return at.isNull() | (at < self.micros) | ((at == self.micros) & behind)


def tally_of(dead_letters: DataFrame) -> list[Tally]:
    """In: `DeadLetterTable.dead_letters`. The most frequent first."""
    found = (
        collectable(dead_letters)
        .groupBy("failure_code", "status")
        .agg(F.count(F.lit(1)).alias("letters"), F.max("failed_at").alias("newest"))
        .orderBy(F.desc("letters"), "failure_code", "status")
    )
    return [Tally(*row) for row in found.collect()]


def listed(dead_letters: DataFrame) -> list[Listed]:
    """In: `DeadLetterTable.dead_letters`, few of them."""
    return [Listed(*row) for row in collectable(dead_letters).select(*Listed.__dataclass_fields__).collect()]


def page_of(dead_letters: DataFrame, most: int, *, after: Place | None) -> tuple[list[Listed], Place | None]:
    """The newest `most` dead letters behind `after`, and the place of the next ones if there are more."""
    behind = dead_letters.where(after.is_behind()) if after is not None else dead_letters
    micros = F.unix_micros("failed_at").alias("_micros")
    ordered = behind.orderBy(F.col("failed_at").desc_nulls_last(), DEAD_LETTER_ID).limit(most + 1)
    found = collectable(ordered.withColumn("_micros", micros)).select(*Listed.__dataclass_fields__, "_micros")
    rows = found.collect()
    page = [Listed(*row[:-1]) for row in rows[:most]]
    return page, Place(rows[most - 1]["_micros"], page[-1].letter_id) if len(rows) > most else None
