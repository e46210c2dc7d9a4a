"""The DLQ table, which holds each dead letter once, and its status table, to which each change is appended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_DDL, DEAD_LETTER_ID, STATUS_DDL, DeadLetterStatus
from tidemark.contract.undone import Undone
from tidemark.dead_letters.columns import schema_of
from tidemark.platform.kept_rows import kept
from tidemark.sink import table as tables
from tidemark.sink.statements import column_of, commit_merge, merge_into, save_into
from tidemark.sink.table_log import as_of_now


@dataclass(frozen=True)
class DeadLetterTable:
    """The dead letters of one landed table. Picklable."""

    landed: TableRef

    @property
    def facts(self) -> TableRef:
        return self.landed.dlq

    @property
    def statuses(self) -> TableRef:
        return self.landed.sibling("_dlq_status")

    def create(self, spark: SparkSession) -> str:
        """Create both if absent; returns Delta's id of the DLQ table. Raises SchemaConflict where a table has
        another schema.

        Where the DLQ table is there, so is that of its statuses: a reader may come between the two.
        """
        ids = []
        for table, ddl, skipped_by in (
            (self.statuses, STATUS_DDL, f"{records.PARTITION},{records.OFFSET},at"),
            (self.facts, DEAD_LETTER_DDL, f"{records.PARTITION},{records.OFFSET},failed_at"),
        ):
            schema = schema_of(ddl)
            facts = tables.describe(spark, table)
            if facts is None:
                statistics = {"delta.dataSkippingStatsColumns": skipped_by}
                facts = tables.create(spark, table, schema, Destination(properties=statistics))
            tables.check_schema(spark, table, facts, schema, evolve=True)
            ids.append(facts.id)
        return ids[-1]

    def exists(self, spark: SparkSession) -> bool:
        return tables.describe(spark, self.facts) is not None

    def merge(self, dead_letters: DataFrame) -> None:
        """Add the dead letters that the table lacks; those that it has stay unchanged.

        In: `DEAD_LETTER_DDL`, read twice. Reads only the files whose offsets they overlap. Raises Delta's errors;
        a conflict with another writer may be retried.
        """
        once = dead_letters.dropDuplicates([DEAD_LETTER_ID])
        bounds = once.agg(F.min(records.OFFSET).alias("low"), F.max(records.OFFSET).alias("high")).first()
        if bounds is None or bounds["low"] is None:
            return
        dead_letter, offset = column_of(self.facts, DEAD_LETTER_ID), column_of(self.facts, records.OFFSET)
        same = (dead_letter == F.col(f"s.{DEAD_LETTER_ID}")) & (offset == F.col(f"s.{records.OFFSET}"))
        overlapping = offset.between(int(bounds["low"]), int(bounds["high"]))
        merge = merge_into(once, self.facts, same & overlapping).whenNotMatched().insertAll()
        commit_merge(merge, self.facts)

    def note(self, events: DataFrame) -> None:
        """Append status events. In: `STATUS_DDL`."""
        ordered = events.select(*schema_of(STATUS_DDL).names)
        save_into(ordered.write.format("delta").mode("append"), self.statuses)

    def forget(self, dead_letters: DataFrame) -> None:
        """Delete dead letters (`letter_id`), with their bytes and their events."""
        for table in (self.facts, self.statuses):
            same = column_of(table, DEAD_LETTER_ID) == F.col(f"s.{DEAD_LETTER_ID}")
            commit_merge(merge_into(dead_letters, table, same).whenMatched().delete(), table)

    def dead_letters(self, spark: SparkSession) -> DataFrame:
        """Every dead letter with its status: `DEAD_LETTER_DDL`, then `status`, `attempts`, `status_at`, `status_by`,
        `status_note`, `edit`, `table_version`, `status_sequence`.
        """
        # Of two simultaneous events RESOLVED loses: another replay finds the row and resolves it again.
        order = F.struct("sequence", F.col("status") != DeadLetterStatus.RESOLVED.value, "at")
        fields = ("status", "attempts", "at", "by", "note", "edit", "table_version", "sequence")
        newest = (
            as_of_now(spark, self.statuses)
            .groupBy(DEAD_LETTER_ID)
            .agg(F.max_by(F.struct(*fields), order).alias("e"))
        )
        joined = as_of_now(spark, self.facts).join(newest, DEAD_LETTER_ID, "left")
        return joined.select(
            *schema_of(DEAD_LETTER_DDL).names,
            F.coalesce("e.status", F.lit(DeadLetterStatus.NEW.value)).alias("status"),
            F.coalesce("e.attempts", F.lit(0)).alias("attempts"),
            F.col("e.at").alias("status_at"),
            F.col("e.by").alias("status_by"),
            F.col("e.note").alias("status_note"),
            F.col("e.edit").alias("edit"),
            F.col("e.table_version").alias("table_version"),
            F.coalesce("e.sequence", F.lit(0)).alias("status_sequence"),
        )

    def reopen_undone(self, spark: SparkSession, undone: Undone, *, by: str) -> int:
        """Makes dead letters new again whose row a RESTORE of the landed table removed; returns how many."""
        if not undone:
            return 0
        at = F.col("table_version")
        gone = reduce(or_, [(at > low) & (at < high) for low, high in undone])
        return self._reopen(spark, gone, by=by, note="the table was restored to before its row was there")

    def reopen_all(self, spark: SparkSession, topic_id: str, *, by: str, note: str) -> int:
        """Makes every resolved dead letter of the topic new again, where the landed table lost its rows."""
        return self._reopen(spark, F.col(records.TOPIC_ID) == topic_id, by=by, note=note)

    def _reopen(self, spark: SparkSession, which: Column, *, by: str, note: str) -> int:
        if not self.exists(spark):
            return 0
        # An interrupted creation, or an older table, must not stop the stream that calls.
        self.create(spark)
        dead_letters = self.dead_letters(spark).where(
            (F.col("status") == DeadLetterStatus.RESOLVED.value) & which
        )
        events = kept(event(dead_letters, DeadLetterStatus.NEW, by=by, note=F.lit(note)))
        count = events.count()
        if count:
            self.note(events)
        return count


def event(
    dead_letters: DataFrame,
    status: DeadLetterStatus,
    *,
    by: str,
    note: Column,
    attempts: Column | None = None,
) -> DataFrame:
    """Events of one status for `DeadLetterTable.dead_letters`, each after the newest event that was read."""
    columns = dead_letters.columns
    return dead_letters.select(
        DEAD_LETTER_ID,
        records.PARTITION,
        records.OFFSET,
        F.lit(status.value).alias("status"),
        (F.col("attempts") if attempts is None else attempts).cast("int").alias("attempts"),
        F.current_timestamp().alias("at"),
        F.lit(by).alias("by"),
        note.alias("note"),
        (F.col("edit") if "edit" in columns else F.lit(None)).cast("string").alias("edit"),
        (F.col("table_version") if "table_version" in columns else F.lit(None))
        .cast("bigint")
        .alias("table_version"),
        (F.col("status_sequence") + 1).cast("bigint").alias("sequence"),
    )
