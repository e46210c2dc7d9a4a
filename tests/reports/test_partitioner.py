"""Requests lie on the partition that Java's default partitioner gives their key."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

if TYPE_CHECKING:
    from tests.reports.conftest import Workflow


def murmur2(data: bytes) -> int:
    """Kafka's own hash, signed 32 bits, as `org.apache.kafka.common.utils.Utils.murmur2` computes it."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) - len(data) % 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h & 1 << 31 else h


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas_when_compared_with_its_own_test_vectors(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected


def partitions_of(flow: Workflow, partitions: int) -> dict[str, list[int]]:
    consumer = Consumer({**flow.connection, "group.id": uuid.uuid4().hex})
    positions = [TopicPartition(flow.settings.topic, p, 0) for p in range(partitions)]
    total = sum(consumer.get_watermark_offsets(p, timeout=10, cached=False)[1] for p in positions)
    consumer.assign(positions)
    found: dict[str, list[int]] = {}
    for _ in range(total):
        message = consumer.poll(10)
        assert message is not None
        found.setdefault(message.key().decode(), []).append(message.partition())
    consumer.close()
    return found


@pytest.mark.guarantee("reports: 2 routed by key")
def test_a_request_lies_where_javas_producer_would_put_it(workflow: Callable[..., Workflow]) -> None:
    flow = workflow()
    for _ in range(40):
        flow.submit()
    found = partitions_of(flow, 6)
    assert len(found) == 40
    assert found == {key: [(murmur2(key.encode()) & 0x7FFFFFFF) % 6] for key in found}
    assert len({partition for (partition,) in found.values()}) == 6


@pytest.mark.guarantee("reports: partitions added later")
def test_keys_move_when_partitions_are_added(workflow: Callable[..., Workflow]) -> None:
    """The order of a key is not kept across this: its older events may lie on another partition."""
    flow = workflow()
    requests = [flow.submit() for _ in range(30)]
    admin = AdminClient(flow.connection)
    admin.create_partitions([NewPartitions(flow.settings.topic, 8)])[flow.settings.topic].result(10)
    flow.wait_until(
        lambda: len(admin.list_topics(flow.settings.topic).topics[flow.settings.topic].partitions) == 8
    )
    later = type(flow.service._publisher)(flow.connection, topic=flow.settings.topic)
    for request_id in requests:
        later.publish(flow.service.status(request_id))
    found = partitions_of(flow, 8)
    for key, partitions in found.items():
        hashed = murmur2(key.encode()) & 0x7FFFFFFF
        assert sorted(partitions) == sorted([hashed % 6, hashed % 8])
    assert any(len(set(partitions)) == 2 for partitions in found.values())
