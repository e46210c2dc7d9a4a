"""Holes in a topic's offsets, and a topic that is deleted and created again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tidemark.dev.producers import SampleRecord, create_topic
from tidemark.listener import Batch
from tidemark.listener.identity import TopicRecreated
from tidemark.listener.meter import Meter
from tidemark.monitoring.metrics import Metrics

if TYPE_CHECKING:
    from tests.listener.conftest import Scene

Scenes = Callable[..., "Scene"]


def recreate(one: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": one.bootstrap})
    for future in admin.delete_topics([one.topic]).values():
        future.result(10)
    while one.topic in admin.list_topics(timeout=10).topics:
        time.sleep(0.1)
    create_topic(one.bootstrap, one.topic, 1)


@pytest.mark.guarantee("case: kafka-01", "consumers: a topic created again")
@pytest.mark.parametrize("sent", [2, 5])
def test_all_records_are_handed_over_when_the_topic_is_created_again_under_a_batch(
    scene: Scenes, sent: int
) -> None:
    """kafka-01: what is done of the former topic is not committed to its successor."""
    one = scene()
    one.fill([3])
    reached, go_on = threading.Event(), threading.Event()
    ids: list[str] = []

    def handler(batch: Batch) -> None:
        ids.append(batch.topic_ids[one.topic])
        reached.set()
        go_on.wait(30)

    running = one.listen(handler)
    one.wait(reached.is_set)
    recreate(one)
    one.fill([sent])
    go_on.set()
    assert running.ended()
    assert isinstance(running.raised, TopicRecreated)
    assert one.committed() == {}
    one.running.clear()
    one.executions.clear()
    one.listen(handler)
    one.wait_committed({0: sent})
    assert one.seen == [(0, offset) for offset in range(sent)]
    assert len(set(ids)) == 2, "a job's run of the former topic's batch is not taken for one of the new topic"


@pytest.mark.guarantee("case: kafka-03", "consumers: transactions")
def test_aborted_records_are_left_out_and_lag_is_0_when_there_are_transactions(scene: Scenes) -> None:
    """kafka-03: a committed transaction of 2, an aborted one of 2, one plain record."""
    one = scene()
    producer = Producer({"bootstrap.servers": one.bootstrap, "transactional.id": one.topic, "log_level": 0})
    producer.init_transactions(10)
    for values, end in (("ab", producer.commit_transaction), ("xy", producer.abort_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce(one.topic, value.encode(), partition=0)
        producer.flush(10)
        end(10)
    one.produce(SampleRecord(b"c", partition=0))
    values_seen: list[bytes | None] = []
    metrics, seen = Metrics(), {"group": one.group, "topic": one.topic, "partition": "0"}
    one.listen(
        lambda batch: values_seen.extend(r.value for r in batch.records),
        consumer={"isolation.level": "read_committed"},
        meter=Meter(metrics, one.group),
    )
    admin = AdminClient({"bootstrap.servers": one.bootstrap})
    asked = admin.list_offsets({TopicPartition(one.topic, 0): OffsetSpec.latest()})
    (end,) = [future.result(10).offset for future in asked.values()]
    assert end > 5, "two markers and the two aborted records have offsets too"
    one.wait_committed({0: end})
    assert values_seen == [b"a", b"b", b"c"]
    # Now the topic ends in a marker, and then in a transaction of which no record may be seen.
    for value, finish, offsets in (
        ("d", producer.commit_transaction, 2),
        ("z", producer.abort_transaction, 2),
    ):
        producer.begin_transaction()
        producer.produce(one.topic, value.encode(), partition=0)
        producer.flush(10)
        finish(10)
        end += offsets
        one.wait_committed({0: end})
        one.wait(lambda: metrics.registry.get_sample_value("tidemark_listener_lag_records", seen) == 0)
    assert values_seen == [b"a", b"b", b"c", b"d"]
