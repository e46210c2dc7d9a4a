"""The DLQ table's own query: merges the records of the DLQ topic, whoever wrote them, by coordinates."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError, ShutdownRequested
from tidemark.contract.failpoints import failpoint
from tidemark.contract.marks import Marks
from tidemark.dead_letters.claims import claimed
from tidemark.dead_letters.dlq_table.reader_checkpoint import reader_checkpoint
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.platform.files import files_at
from tidemark.resilience.classification import classifier_for
from tidemark.resilience.retry import Retrier, Sleep, retrier_for, sleep_through
from tidemark.source.reader import read_stream, start_polling
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.target import Target
from tidemark.streams.targets import targets_of

log = structlog.get_logger(__name__)

_LOOK_S = 1


@dataclass
class KeepDeadLetters:
    """The `foreachBatch` handler: merges a batch of DLQ records. Running a batch again changes nothing."""

    stream: str
    table: DeadLetterTable
    retry: Retrier

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        failpoint("letters-start")
        dead_letters = claimed(batch, self.table)
        self.retry.call(lambda: self.table.merge(dead_letters), step=f"merge into {self.table.facts}")
        failpoint("letters-merged")
        log.info("dead letters kept", stream=self.stream, batch=batch_id, table=str(self.table.facts))


def dead_letter_target(spark: SparkSession, settings: Settings, stream: str, *, run: str) -> Target:
    """The stream's decoded table. Raises ConfigError for a stream that only lands raw: it rejects nothing."""
    for target in targets_of(spark, settings, stream, run=run):
        if target.decode is not None:
            return target
    raise ConfigError(
        f"stream {stream} only lands raw records: it has no dead letters", "name another stream"
    )


def start_dead_letters(
    spark: SparkSession,
    settings: Settings,
    target: Target,
    *,
    available_now: bool,
    reader: str = "dead-letters",
    polling: int = 1,
    sleep: Sleep = sleep_through,
) -> StreamingQuery | None:
    """Start the query; None while there is no DLQ topic, and so no dead letter.

    `polling` is how many queries the application has: they share its polls.

    The tables are created first. The checkpoint is the reader's, and named after the ids of the DLQ topic and
    of the table: a table created again gets all dead letters again. A checkpoint that is lost or that retention
    passed, and a second reader, only read dead letters again: the table still holds each once.
    """
    table = DeadLetterTable(target.table)
    table_id = table.create(spark)
    admin = KafkaAdmin(settings.kafka)
    topic = admin.find(target.stream.dlq_topic)
    if topic is None:
        return None
    processing = target.stream.processing
    retry = retrier_for(processing, classifier_for(target.stream.failures), sleep=sleep)
    dlq_records = read_stream(
        spark, settings.kafka, topic, start=Marks(), processing=processing, bounded=available_now
    )
    root = f"{settings.checkpoint_root.rstrip('/')}/{target.name}.{reader}"
    checkpoint = reader_checkpoint(
        files_at(root),
        root,
        # A topic's id may hold a slash, and a checkpoint is one folder.
        f"{topic.id.replace('/', '_')}-{table_id}",
        topic.name,
        earliest=admin.earliest(topic),
        ends=admin.ends(topic),
        stream=target.name,
    )
    writer = (
        dlq_records.writeStream.queryName(f"{target.name} dead letters {target.run[:8]}")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(KeepDeadLetters(target.name, table, retry))
    )
    every = None if available_now else processing.seconds_between_polls(polling)
    return start_polling(writer, name=f"{target.name} dead letters", every=every)


def keep_dead_letters(
    spark: SparkSession,
    settings: Settings,
    target: Target,
    *,
    reader: str = "dead-letters",
    ending: threading.Event | None = None,
) -> None:
    """Bring the DLQ table up to the end of the DLQ topic. Raises the error that ended the query, and ShutdownRequested
    once `ending` is set.
    """
    ending = ending or threading.Event()
    query = start_dead_letters(spark, settings, target, available_now=True, reader=reader, sleep=ending.wait)
    while query is not None and not query.awaitTermination(_LOOK_S):
        if ending.is_set():
            query.stop()
            raise ShutdownRequested(f"the dead letters of {target.name} are read on at the next start")
