"""Marks committed to the consumer group, for lag tools to see; never a place to resume from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from tidemark.contract.marks import Marks
from tidemark.source.topics import KafkaAdmin


@dataclass(frozen=True)
class GroupOffsets:
    """The offsets of one group on one topic, through the admin client: no membership, no rebalance."""

    admin: KafkaAdmin
    group: str

    def read(self, topic: str, partitions: tuple[int, ...]) -> Marks:
        """What is committed. A partition without an offset is not named."""
        asked = ConsumerGroupTopicPartitions(self.group, [TopicPartition(topic, p) for p in partitions])
        client = self.admin.client()
        found = client.list_consumer_group_offsets([asked], request_timeout=self.admin.timeout)
        committed = found[self.group].result(self.admin.timeout + 5)
        return Marks({tp.partition: tp.offset for tp in committed.topic_partitions if tp.offset >= 0})

    def commit(self, topic: str, marks: Mapping[int, int]) -> None:
        """Commits the next offsets to read. An offset never goes back: the larger one stands.

        Raises RetriableError or NonRetriableError; the pipeline makes a warning and a metric of either.
        """
        try:
            before = self.read(topic, tuple(marks))
            wanted = [TopicPartition(topic, p, o) for p, o in marks.items() if o > before.at(p)]
            if not wanted:
                return
            asked = ConsumerGroupTopicPartitions(self.group, wanted)
            client = self.admin.client()
            futures = client.alter_consumer_group_offsets([asked], request_timeout=self.admin.timeout)
            futures[self.group].result(self.admin.timeout + 5)
        except (KafkaException, TimeoutError) as error:
            raise self.admin.failure(error, f"offsets of group {self.group} (DESCRIBE, READ)") from error
