"""Producers with transactions: markers and aborted records leave holes in a topic's offsets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from tests.stream_under_test import NAME, StreamUnderTest, good

from tidemark.source.topics import KafkaAdmin
from tidemark.streams.status import logs_of, status_of


@pytest.mark.guarantee("case: kafka-03")
def test_records_are_counted_and_no_loss_is_seen_when_transactions_leave_holes(
    stream: Callable[..., StreamUnderTest],
) -> None:
    """A committed transaction of 2, an aborted one of 2, one plain record; then an aborted one alone."""
    events = stream()
    producer = Producer(
        {"bootstrap.servers": events.broker.bootstrap, "transactional.id": events.topic, "log_level": 0}
    )
    producer.init_transactions(20)

    def transaction(*ids: int, end: Callable[[float], None]) -> None:
        producer.begin_transaction()
        for each in ids:
            producer.produce(events.topic, good(each), partition=0)
        producer.flush(10)
        end(10)

    transaction(1, 2, end=producer.commit_transaction)
    transaction(8, 9, end=producer.abort_transaction)
    events.produce(good(3))
    events.land()
    assert events.ids() == [1, 2, 3]
    assert [(r.read, r.accepted) for r in events.reports] == [(3, 3)]
    transaction(8, 9, end=producer.abort_transaction)
    events.land()
    events.produce(good(4))
    events.land()
    assert events.ids() == [1, 2, 3, 4]
    assert [r.read for r in events.reports] == [1], "the reports of the last run"
    admin = KafkaAdmin(events.settings().kafka)
    assert events.state().marks == admin.ends(admin.describe(events.topic))
    (status,) = status_of(logs_of(events.spark), events.settings(), NAME)
    assert (status.lag, status.problem) == (0, None)
