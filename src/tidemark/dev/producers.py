"""Topics, and records written into them exactly as told: key, value, headers, partition and timestamp."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidemark.contract.errors import TidemarkError
from tidemark.source.topics import OffsetSpec


class ProduceFailed(TidemarkError):
    condition = "TIDEMARK_PRODUCE"


@dataclass(frozen=True)
class SampleRecord:
    """A record to write. A value of None is a tombstone; the key decides the partition unless given."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Acknowledged(NamedTuple):
    """Where the broker put a record."""

    topic: str
    partition: int
    offset: int


def admin(bootstrap: str, **client: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **client})


def create_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Makes a topic; dots of its configuration keys are underscores here (`cleanup_policy="compact"`).

    Returns when the broker has a leader for every partition.
    """
    client = admin(bootstrap)
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    client.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
    for _ in range(100):
        found = client.list_topics(name, timeout=10).topics[name]
        if found.error is None and len(found.partitions) == partitions:
            return
        time.sleep(0.05)
    raise ProduceFailed(f"topic {name} was created, but its {partitions} partitions do not show")


def delete_topic(bootstrap: str, name: str) -> None:
    """Removes a topic; returns when the broker no longer shows it, so that it can be created again."""
    client = admin(bootstrap)
    client.delete_topics([name])[name].result(30)
    for _ in range(100):
        error = client.list_topics(name, timeout=10).topics[name].error
        if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return
        time.sleep(0.05)
    raise ProduceFailed(f"topic {name} was deleted, but still shows")


def topic_sizes(bootstrap: str) -> dict[str, list[int]]:
    """Records per partition of every topic but Kafka's own, by name.

    Raises:
        ProduceFailed: nothing answers at this address.
    """
    client = admin(bootstrap)
    try:
        topics = client.list_topics(timeout=10).topics
        names = sorted(name for name in topics if not name.startswith("__"))
        places = [TopicPartition(name, p) for name in names for p in sorted(topics[name].partitions)]
        low, high = (
            {(at.topic, at.partition): found.result(30).offset for at, found in asked.items()}
            for asked in (
                client.list_offsets(dict.fromkeys(places, spec))
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            )
        )
    except KafkaException as error:
        raise ProduceFailed(
            f"no Kafka answers on {bootstrap}: {error.args[0].str()}", "is it the right address?"
        ) from error
    sizes: dict[str, list[int]] = {name: [] for name in names}
    for name, partition in low:
        sizes[name].append(high[name, partition] - low[name, partition])
    return sizes


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[SampleRecord | bytes | None],
    *,
    config: Mapping[str, Any] | None = None,
    timeout: float = 60,
) -> list[Acknowledged]:
    """Writes the records in order and waits for every acknowledgement, which come back in that order.

    A plain `bytes` (or None) is a record of that value alone. Idempotent, so a retry inside the client
    neither doubles nor reorders; `config` overrides the client's settings.

    Raises:
        ProduceFailed: the broker refused a record, or did not acknowledge all within `timeout` seconds.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "enable.idempotence": True,
        "linger.ms": 5,
        "queue.buffering.max.messages": 1_000_000,
        **(config or {}),
    }
    producer = Producer(settings)
    acknowledged: dict[int, Acknowledged] = {}
    refused: list[str] = []

    def report(position: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(f"record {position}: {error.str()}")
            return
        place = message.partition(), message.offset()
        acknowledged[position] = Acknowledged(topic, int(place[0] or 0), int(place[1] or 0))

    count = 0
    for count, item in enumerate(records, start=1):
        record = item if isinstance(item, SampleRecord) else SampleRecord(item)
        optional: dict[str, Any] = {}
        if record.partition is not None:
            optional["partition"] = record.partition
        if record.timestamp_ms is not None:
            optional["timestamp"] = record.timestamp_ms
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    on_delivery=partial(report, count - 1),
                    **optional,
                )
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    left = producer.flush(timeout)
    if refused or left or len(acknowledged) != count:
        raise ProduceFailed(
            f"{count - len(acknowledged)} of {count} records for {topic} were not acknowledged: "
            + ("; ".join(refused[:5]) or f"{left} still waited after {timeout:.0f} s")
        )
    return [acknowledged[position] for position in range(count)]
