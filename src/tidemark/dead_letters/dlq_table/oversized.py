"""Dead letters that do not fit the DLQ topic: their bytes go to the DLQ table, a pointer to the topic."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_DDL, DEAD_LETTER_ID
from tidemark.dead_letters.columns import columns_of
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dead_letters.topic import DeadLetterTopic
from tidemark.platform.kept_rows import kept


def keep_oversized(rejected: DataFrame, topic: DeadLetterTopic) -> None:
    """Merge those of `rejected` (`REJECTED_COLUMNS`) that are too large for the topic into the DLQ table.

    Call it before they are published: the pointer that the DLQ topic brings later finds its dead letter there.
    """
    failure = F.col(records.FAILURE)
    columns = {
        DEAD_LETTER_ID: F.concat_ws(":", *[F.col(c) for c in records.COORDINATES]),
        "stream": F.lit(topic.stream),
        "consumer_group": F.lit(topic.group),
        "failure_code": failure["code"],
        "failure_stage": failure["stage"],
        "failure_message": failure["message"],
        "payload_format": failure["format"],
        "retriable": F.lit(False),
        "replay_count": F.lit(0),
        "written_as": F.lit(topic.format),
        "failed_at": F.current_timestamp(),
        "dlq_topic": F.lit(topic.name),
        **{name: F.col(name) for name in records.ENVELOPE_COLUMNS},
    }
    oversized = kept(rejected.where(topic.too_large()).select(*columns_of(DEAD_LETTER_DDL, columns)))
    table = DeadLetterTable(topic.table)
    table.create(rejected.sparkSession)
    table.merge(oversized)
