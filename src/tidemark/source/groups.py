"""Commits marks to the consumer group for lag tools; no start resumes from them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tidemark.contract.marks import Marks
from tidemark.source.clients import admin_options
from tidemark.source.topics import REFUSED, KafkaAdmin

_LOOK_S = 0.5
_BOUND_MS = 10_000
_NOT_YET = (
    KafkaError._TIMED_OUT,
    # A new broker is still making or reading the topic of the groups.
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
Key = tuple[tuple[tuple[str, str | int | bool], ...], str]
_consumers: dict[Key, Consumer] = {}
"""Of the process, so that `GroupOffsets` stays picklable."""


@dataclass(frozen=True)
class GroupOffsets:
    """The offsets of one group, through a consumer that never joins it: no rebalance.

    Not through the admin client: its requests to a group's coordinator abort the whole process with a failed
    assertion in librdkafka when the broker becomes unavailable.
    """

    admin: KafkaAdmin
    group: str

    def read(self, topic: str, partitions: tuple[int, ...]) -> Marks:
        """What is committed. A partition without an offset is not named. Raises KafkaException."""
        asked = [TopicPartition(topic, p) for p in partitions]
        consumer = self._consumer()
        deadline = time.monotonic() + self.admin.timeout
        while True:
            try:
                found = _checked(consumer.committed(asked, timeout=_LOOK_S))
                return Marks({tp.partition: tp.offset for tp in found if tp.offset >= 0})
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise
            # Where the group is refused, the call itself only times out.
            event = consumer.poll(0.1)
            problem = event.error() if event is not None else None
            if problem is not None and problem.code() in REFUSED:
                raise KafkaException(problem)

    def commit(self, topic: str, marks: Mapping[int, int]) -> Marks:
        """Commits the next offsets to read; returns those committed before. A larger committed offset stays.

        Raises RetriableError or NonRetriableError.
        """
        try:
            before = self.read(topic, tuple(marks))
            wanted = [TopicPartition(topic, p, o) for p, o in marks.items() if o > before.at(p)]
            if wanted:
                _checked(self._consumer().commit(offsets=wanted, asynchronous=False) or ())
            return before
        except KafkaException as error:
            # A consumer reports only once that its group is refused; a new one asks again.
            _consumers.pop(self._key, None)
            raise self.admin.failure(error, f"offsets of group {self.group} (DESCRIBE, READ)") from error

    @property
    def _key(self) -> Key:
        return tuple(sorted(admin_options(self.admin.kafka).items())), self.group

    def _consumer(self) -> Consumer:
        if self._key not in _consumers:
            options = {
                **admin_options(self.admin.kafka),
                "socket.timeout.ms": _BOUND_MS,
                "session.timeout.ms": _BOUND_MS,
                "group.id": self.group,
                "enable.auto.commit": False,
            }
            _consumers[self._key] = Consumer(options)
        return _consumers[self._key]


def _checked(partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
    for partition in partitions:
        if partition.error is not None:
            raise KafkaException(partition.error)
    return partitions
