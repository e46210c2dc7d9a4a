"""A Kafka producer that waits for the broker's acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer


class AcknowledgedProducer:
    """An idempotent producer. Thread-safe.

    Partitions by murmur2 of the key, as Java's clients do, so that producers of both kinds agree on the
    partition of a key.
    """

    def __init__(self, connection: Mapping[str, object], *, timeout: float) -> None:
        self._timeout = timeout
        self._producer = Producer(
            {
                # The broker knows how large a record of the topic may be.
                "message.max.bytes": 1_000_000_000,
                **connection,
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": max(1000, int(timeout * 1000)),
            }
        )

    def send(
        self, messages: Sequence[Mapping[str, Any]], *, keep_alive: Callable[[], None] = lambda: None
    ) -> list[KafkaError | None]:
        """Produces `messages` (arguments of `Producer.produce`) and waits at most `timeout` seconds.

        Returns the error of each message, None where the broker acknowledged it. Calls `keep_alive` while it waits.
        """
        answers: dict[int, KafkaError | None] = {}
        for index, message in enumerate(messages):

            def answered(error: KafkaError | None, _: Any, index: int = index) -> None:
                answers[index] = error

            try:
                self._producer.produce(**message, on_delivery=answered)
            except KafkaException as error:
                answers[index] = error.args[0]
            except BufferError:
                answers[index] = KafkaError(KafkaError._QUEUE_FULL)
        deadline = time.monotonic() + self._timeout
        while len(answers) < len(messages) and time.monotonic() < deadline:
            self._producer.poll(0.05)
            keep_alive()
        timed_out = KafkaError(KafkaError._MSG_TIMED_OUT)
        return [answers.get(index, timed_out) for index in range(len(messages))]

    def partitions_of(self, topic: str) -> int:
        """The number of partitions, 0 if the topic does not exist. Raises KafkaException without an answer."""
        listed = self._producer.list_topics(topic, timeout=10).topics[topic]
        return 0 if listed.error else len(listed.partitions)

    def close(self) -> None:
        self._producer.flush(5)
