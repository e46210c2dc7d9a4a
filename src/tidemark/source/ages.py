"""The timestamps of records at given offsets, which turn a lag in records into a lag in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tidemark.source.clients import admin_options
from tidemark.source.topics import KafkaAdmin


def timestamps_at(
    admin: KafkaAdmin,
    topic: str,
    offsets: Mapping[int, int],
    *,
    within: float = 5.0,
    clock: Callable[[], float] = time.monotonic,
) -> dict[int, int]:
    """Partition → timestamp (Unix milliseconds) of the first record at or above the offset.

    Fetches one record of each partition, without joining a group and without a commit. Leaves out partitions
    whose record has no timestamp, or does not arrive within `within` seconds.
    Raises RetriableError or NonRetriableError where Kafka does not answer or refuses.
    """
    if not offsets:
        return {}
    consumer = Consumer(
        {
            **admin_options(admin.kafka),
            "group.id": "tidemark-ages",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 1024,
            "fetch.wait.max.ms": 50,
        }
    )
    found: dict[int, int] = {}
    try:
        waiting = set(offsets)
        consumer.assign([TopicPartition(topic, p, o) for p, o in offsets.items()])
        deadline = clock() + within
        while waiting and clock() < deadline:
            message = consumer.poll(min(0.5, max(0.0, deadline - clock())))
            if message is None or message.error() is not None:
                continue
            partition = message.partition()
            if partition in waiting:
                waiting.discard(partition)
                consumer.pause([TopicPartition(topic, partition)])
                _, at = message.timestamp()
                if at >= 0:
                    found[partition] = at
    except KafkaException as error:
        raise admin.failure(error, f"records of topic {topic}") from error
    finally:
        consumer.close()
    return found
