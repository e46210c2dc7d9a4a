"""The loop with the work that Tidemark does: types, strictness, dead letters, its columns, marks in the commit.

As one writes it by hand in a day: one process, a Kafka client, Arrow's JSON reader and delta-rs. It lands each record
once: rows and marks are one commit of the table, a start goes on from the marks that it reads there, and of
two writers one has its commit refused, as both would commit the same version of one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from load import Batches, Load
from loop_decoding import SCHEMA, Bad, by_block

TRANSACTION = "loop"
MARKS = "loop.marks"
VERSION = "1"
TABLE = pa.schema(
    [
        *SCHEMA,
        ("stream_partition", pa.int32()),
        ("stream_offset", pa.int64()),
        ("message_timestamp", pa.timestamp("us", "UTC")),
        ("stream_topic_id", pa.string()),
        ("source_topic", pa.string()),
        ("processing_version", pa.string()),
    ]
)
_AT_ONCE = 10_000
_WAIT_S = 30.0


@dataclass
class Position:
    """How far a table is: the next offset of each partition, and the number of its newest commit.

    `table` is as its newest commit left it, so that delta-rs sees whether another writer has committed since.
    """

    table: Any
    topic_id: str
    marks: dict[int, int]
    sequence: int


@dataclass
class Collected:
    """Records that are not landed yet, as columns."""

    payloads: list[bytes | None] = field(default_factory=list)
    partitions: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)

    def add(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            self.payloads.append(message.value())
            self.partitions.append(message.partition())
            self.offsets.append(message.offset())
            self.timestamps.append(message.timestamp()[1])

    def next_offsets(self) -> dict[int, int]:
        """The records of a partition come in the order of their offsets."""
        return {p: o + 1 for p, o in zip(self.partitions, self.offsets, strict=True)}


def same_work_loop(load: Load, folder: Path) -> Batches:
    """Land what the topic has now, from the table's marks on. Raises ImportError without delta-rs."""
    topic_id, partitions = _topic(load)
    position = _position(load, folder / "table", topic_id)
    consumer = _consumer(load, folder.name)
    dead_letters = DeadLetters(load, topic_id)
    left = _assign(consumer, load.topic, partitions, position)
    batches, collected = Batches(), Collected()
    while left > 0:
        messages = consumer.consume(min(_AT_ONCE, left), _WAIT_S)
        collected.add(messages)
        left -= len(messages)
        if collected.payloads and (len(collected.payloads) >= load.batch or left <= 0):
            _land(collected, load.topic, position, dead_letters)
            consumer.commit(
                offsets=[TopicPartition(load.topic, p, o) for p, o in position.marks.items()],
                asynchronous=True,
            )
            collected = Collected()
            batches.batch_ended()
    consumer.close()
    return batches


def _land(collected: Collected, topic: str, position: Position, dead_letters: DeadLetters) -> None:
    """Dead letters are acknowledged before the commit that passes them."""
    from deltalake import CommitProperties, Transaction, write_deltalake

    rows, bad = by_block(collected.payloads)
    dead_letters.publish(collected, bad)
    marks = position.marks | collected.next_offsets()
    kept = json.dumps({"topic_id": position.topic_id, "marks": marks})
    write_deltalake(
        position.table,
        _with_coordinates(rows, bad, collected, topic, position.topic_id),
        mode="append",
        commit_properties=CommitProperties(
            custom_metadata={MARKS: kept},
            app_transactions=[Transaction(TRANSACTION, position.sequence + 1)],
            max_commit_retries=0,
        ),
    )
    position.marks, position.sequence = marks, position.sequence + 1


def _with_coordinates(
    rows: pa.Table, bad: list[Bad], collected: Collected, topic: str, topic_id: str
) -> pa.Table:
    """The good rows with the six columns that Tidemark adds."""
    places = [
        pa.array(collected.partitions, pa.int32()),
        pa.array(collected.offsets, pa.int64()),
        pa.array(collected.timestamps, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
    ]
    if bad:
        good = [True] * len(collected.payloads)
        for place, _ in bad:
            good[place] = False
        places = [column.filter(pa.array(good)) for column in places]
    constants = [pa.repeat(pa.scalar(value), rows.num_rows) for value in (topic_id, topic, VERSION)]
    return pa.Table.from_arrays([*rows.columns, *places, *constants], schema=TABLE)


class DeadLetters:
    """The topic of bad records: their bytes, with their coordinates and the reason as headers."""

    def __init__(self, load: Load, topic_id: str) -> None:
        self._source, self._topic_id, self._topic = load.topic, topic_id, f"{load.topic}-loop-dlq"
        client = AdminClient({"bootstrap.servers": load.bootstrap, "log_level": 0})
        try:
            client.create_topics([NewTopic(self._topic, 1, 1)])[self._topic].result(_WAIT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self._producer = Producer(
            {"bootstrap.servers": load.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._refused: list[str] = []

    def publish(self, collected: Collected, bad: list[Bad]) -> None:
        """Returns when the broker has acknowledged all; raises RuntimeError where it did not."""
        for place, reason in bad:
            headers = {
                "topic": self._source,
                "topic.id": self._topic_id,
                "partition": str(collected.partitions[place]),
                "offset": str(collected.offsets[place]),
                "timestamp": str(collected.timestamps[place]),
                "message": reason,
            }
            self._produce(collected.payloads[place], {f"__dlq.errors.{n}": v for n, v in headers.items()})
        if self._producer.flush(_WAIT_S) or self._refused:
            raise RuntimeError(f"dead letters were not acknowledged: {self._refused[:3]}")

    def _produce(self, payload: bytes | None, headers: dict[str, str]) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value=payload, headers=list(headers.items()), on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused.append(error.str())


def _topic(load: Load) -> tuple[str, list[int]]:
    """The topic's id, and its partitions."""
    from confluent_kafka import TopicCollection

    client = AdminClient({"bootstrap.servers": load.bootstrap, "log_level": 0})
    found = client.describe_topics(TopicCollection([load.topic]))[load.topic].result(_WAIT_S)
    return str(found.topic_id), [p.id for p in found.partitions]


def _position(load: Load, table: Path, topic_id: str) -> Position:
    """What the newest commit with marks says. Marks of another topic of the same name are none."""
    from deltalake import DeltaTable

    partitions = ["cob"] if load.partitioned else None
    opened = DeltaTable.create(table, TABLE, mode="ignore", partition_by=partitions)
    known: dict[str, Any] = next((json.loads(h[MARKS]) for h in opened.history() if MARKS in h), {})
    marks = {int(p): o for p, o in known["marks"].items()} if known.get("topic_id") == topic_id else {}
    return Position(opened, topic_id, marks, opened.transaction_version(TRANSACTION) or 0)


def _consumer(load: Load, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": load.bootstrap,
            "group.id": group,
            # Marks that Kafka has no record for any more are to be an error, and no silent jump.
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "queued.min.messages": 500_000,
            "log_level": 0,
        }
    )


def _assign(consumer: Consumer, topic: str, partitions: list[int], position: Position) -> int:
    """Start at the marks; returns the number of records from there to the topic's end."""
    left, starts = 0, []
    for partition in partitions:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), _WAIT_S)
        start = position.marks.get(partition, first)
        starts.append(TopicPartition(topic, partition, start))
        left += end - start
    consumer.assign(starts)
    return left
