"""Creates topics and produces records with given key, value, headers, partition and timestamp."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidemark.contract.errors import TidemarkError
from tidemark.source.topics import OffsetSpec

_ANY, _NOW = -1, 0
"""The client's values for a partition by the key, and for the current time."""


class ProduceFailed(TidemarkError):
    condition = "TIDEMARK_PRODUCE"


@dataclass(frozen=True)
class SampleRecord:
    """A record to produce. A value of None is a tombstone; without a partition the key decides it."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Acknowledged(NamedTuple):
    """The place of a produced record."""

    topic: str
    partition: int
    offset: int


def admin(bootstrap: str, **client: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **client})


def create_topic(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Creates a topic; dots of its configuration keys are underscores here (`cleanup_policy="compact"`).

    Returns when the broker has a leader for every partition.
    """
    client = admin(bootstrap)
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    client.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
    problem = f"topic {name} was created, but its {partitions} partitions are not listed"
    _await_topic(client, name, lambda t: t.error is None and len(t.partitions) == partitions, problem)


def delete_topic(bootstrap: str, name: str) -> None:
    """Deletes a topic; returns when the broker no longer lists it, so that it can be created again."""
    client = admin(bootstrap)
    client.delete_topics([name])[name].result(30)
    absent, problem = KafkaError.UNKNOWN_TOPIC_OR_PART, f"topic {name} was deleted, but is still listed"
    _await_topic(client, name, lambda t: t.error is not None and t.error.code() == absent, problem)


def _await_topic(client: AdminClient, name: str, condition: Callable[[Any], bool], problem: str) -> None:
    for _ in range(100):
        if condition(client.list_topics(name, timeout=10).topics[name]):
            return
        time.sleep(0.05)
    raise ProduceFailed(problem)


def topic_sizes(bootstrap: str) -> dict[str, list[int]]:
    """Records per partition of every topic but Kafka's own, by name.

    Raises:
        ProduceFailed: no broker answers at this address.
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
            f"no Kafka answers on {bootstrap}: {error.args[0].str()}", "check the address"
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
    """Produces the records in order, waits for every acknowledgement, and returns their places in that order.

    A plain `bytes` (or None) is a record with only that value. The producer is idempotent: a retry inside the
    client neither duplicates nor reorders. `config` overrides the client's settings.

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
        while True:
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=_ANY if record.partition is None else record.partition,
                    timestamp=record.timestamp_ms or _NOW,
                    on_delivery=partial(report, count - 1),
                )
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    left = producer.flush(timeout)
    if refused or left or len(acknowledged) != count:
        raise ProduceFailed(
            f"{count - len(acknowledged)} of {count} records for {topic} were not acknowledged: "
            + ("; ".join(refused[:5]) or f"{left} were still waiting after {timeout:.0f} s")
        )
    return [acknowledged[position] for position in range(count)]
