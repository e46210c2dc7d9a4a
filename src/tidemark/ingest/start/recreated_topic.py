"""A topic created again while a batch read it: rows of the new incarnation that landed under the old id."""

from __future__ import annotations

from functools import reduce

import structlog
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.sink.statements import column_of, commit_merge, merge_into
from tidemark.source.reader import read_range
from tidemark.source.topics import KafkaAdmin, Topic

log = structlog.get_logger(__name__)


def remove_mislabelled(
    spark: SparkSession, admin: KafkaAdmin, table: TableRef, *, newest: LedgerCommit, topic: Topic
) -> None:
    """Remove rows that carry the old topic id and are records of `topic`, the new one.

    Only the last batch can hold such rows: the id is compared after each batch, before it is published. A row
    belongs to the new topic if its partition, offset and timestamp do; the record lands again under the new
    id, as the new topic is read from its beginning. Where the new topic no longer has it, the row stays.
    Safe to run again, so it runs before the new topic's generation is opened.
    """
    begins = admin.earliest(topic).highest(newest.published)
    ends = {p: min(newest.marks.at(p), end) for p, end in admin.ends(topic).items()}
    asked = Marks({p: end for p, end in ends.items() if begins.at(p) < end})
    if not asked:
        return
    found = read_range(spark, admin.kafka, topic, start=Marks({p: begins.at(p) for p in asked}), end=asked)
    keys = (records.PARTITION, records.OFFSET, records.TIMESTAMP)
    # A NULL timestamp equals nothing: a doubled record is better than a lost one.
    same = [column_of(table, k) == F.col(f"s.{k}") for k in keys]
    condition = reduce(Column.__and__, same, column_of(table, records.TOPIC_ID) == newest.topic_id)
    commit_merge(merge_into(found.select(*keys), table, condition).whenMatched().delete(), table)
    log.warning("removed what the last batch read of the new topic", table=str(table), below=dict(asked))
