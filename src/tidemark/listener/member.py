"""One member of a consumer group: the part of confluent-kafka that the listener uses, made safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tidemark.contract.errors import ConfigError, NonRetriableError
from tidemark.listener.delivery.batch import Headers, Partition, Record

log = structlog.get_logger("tidemark.listener")

# One thread polls, commits and seeks. Offsets are never stored by the client, so that nothing is committed
# unnoticed; a position outside the broker's range is an error, never a silent jump. The end of a partition
# is reported, because the offsets before it may be markers of transactions instead of records.
OURS: Mapping[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}

# A seek waits for the fetch under way, so a long fetch delays every retry.
UNLESS_GIVEN: Mapping[str, object] = {"fetch.wait.max.ms": 100}


class GroupMember:
    """Wraps one `Consumer`. Every method must be called from the thread that polls."""

    def __init__(
        self, config: Mapping[str, object], topics: Iterable[str], *, request_timeout: float = 10.0
    ) -> None:
        if clash := [k for k, v in OURS.items() if k in config and config[k] != v]:
            raise ConfigError(
                f"the listener sets {', '.join(clash)} itself",
                hint="remove them from the consumer's properties; `auto-offset-reset` says where to start",
            )
        self.topics = list(topics)
        self.group = str(config["group.id"])
        self.cooperative = (
            "cooperative" in str(config.get("partition.assignment.strategy", ""))
            or config.get("group.protocol") == "consumer"
        )
        self._timeout = request_timeout
        self._consumer = Consumer({**UNLESS_GIVEN, **config, **OURS})

    def subscribe(
        self,
        *,
        on_assign: Callable[[list[Partition]], Mapping[Partition, int]],
        on_revoke: Callable[[list[Partition]], None],
        on_lost: Callable[[list[Partition]], None],
    ) -> None:
        """`on_assign` gives the offset to start from: a seek that early may still fail."""

        def named(partitions: list[TopicPartition]) -> list[Partition]:
            return [(p.topic, p.partition) for p in partitions]

        def assign(_: Any, partitions: list[TopicPartition]) -> None:
            starts = on_assign(named(partitions))
            positions = [TopicPartition(t, p, starts[(t, p)]) for t, p in starts]
            if self.cooperative:
                self._consumer.incremental_assign(positions)
            else:
                self._consumer.assign(positions)

        def unassign(partitions: list[TopicPartition]) -> None:
            if self.cooperative:
                self._consumer.incremental_unassign(partitions)
            else:
                self._consumer.unassign()

        def revoke(_: Any, partitions: list[TopicPartition]) -> None:
            on_revoke(named(partitions))
            unassign(partitions)

        def lost(_: Any, partitions: list[TopicPartition]) -> None:
            on_lost(named(partitions))
            unassign(partitions)

        self._consumer.subscribe(self.topics, on_assign=assign, on_revoke=revoke, on_lost=lost)

    def poll(self, timeout: float) -> Message | None:
        return self._consumer.poll(timeout)

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        asked = [TopicPartition(t, p) for t, p in partitions]
        found = self._consumer.committed(asked, timeout=self._timeout)
        for position in found:
            if position.error:
                raise KafkaException(position.error)
        return {(p.topic, p.partition): p.offset if p.offset >= 0 else None for p in found}

    def range_of(self, where: Partition) -> tuple[int, int]:
        """The broker's first offset and the one after its last."""
        low, high = self._consumer.get_watermark_offsets(
            TopicPartition(*where), timeout=self._timeout, cached=False
        )
        return low, high

    def end_seen(self, where: Partition) -> int | None:
        """The offset after the last, as the newest fetch of the partition saw it; None before the first."""
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*where), cached=True)
        except KafkaException:
            return None
        return high if high >= 0 else None

    def partitions_of(self, topic: str) -> int:
        """0 if the topic does not exist."""
        listed = self._consumer.list_topics(topic, timeout=self._timeout).topics[topic]
        return 0 if listed.error else len(listed.partitions)

    def commit(self, positions: Mapping[Partition, int]) -> dict[Partition, int]:
        """Commits, and returns the positions that the broker accepted. A refused commit does not raise."""
        asked = [TopicPartition(t, p, offset) for (t, p), offset in positions.items()]
        try:
            answered = self._consumer.commit(offsets=asked, asynchronous=False) or []
        except KafkaException as error:
            _stop_if_fatal(error.args[0])
            log.warning("commit refused", error=str(error.args[0]), positions=_text(positions))
            return {}
        taken = {(p.topic, p.partition): p.offset for p in answered if not p.error}
        if len(taken) < len(positions):
            log.warning("commit refused in part", positions=_text(positions), taken=_text(taken))
        return taken

    def seek(self, where: Partition, offset: int) -> bool:
        """False while the client cannot (the partition is not being fetched yet, or went away)."""
        try:
            self._consumer.seek(TopicPartition(*where, offset))
        except KafkaException as error:
            _stop_if_fatal(error.args[0])
            log.debug("seek not possible yet", topic=where[0], partition=where[1], error=str(error.args[0]))
            return False
        return True

    def pause(self, partitions: Iterable[Partition]) -> None:
        self._quietly(self._consumer.pause, partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        resumed = list(partitions)
        self._quietly(self._consumer.resume, resumed)
        if resumed:
            self._wake(resumed[0])

    def _wake(self, where: Partition) -> None:
        """With all partitions paused the client's thread sleeps for up to a second; a request wakes it."""
        try:
            self._consumer.get_watermark_offsets(TopicPartition(*where), timeout=0.05, cached=False)
        except KafkaException as error:
            log.debug("no answer after resuming", error=str(error.args[0]))

    def _quietly(
        self, change: Callable[[list[TopicPartition]], None], partitions: Iterable[Partition]
    ) -> None:
        if named := [TopicPartition(t, p) for t, p in partitions]:
            try:
                change(named)
            except KafkaException as error:
                log.debug("pause or resume refused", error=str(error.args[0]))

    def close(self) -> None:
        """Leaves the group at once, so that other members take over before the session times out."""
        self._consumer.close()


def record_of(message: Message, epoch: int) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        key=message.key(),
        value=message.value(),
        headers=headers_of(message),
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        epoch=epoch,
    )


def headers_of(message: Message) -> Headers:
    """All of them, in order; a name may come more than once."""
    pairs: Any = message.headers() or ()
    return tuple((name, value.encode() if isinstance(value, str) else value) for name, value in pairs)


def _stop_if_fatal(error: KafkaError) -> None:
    if error.fatal() or error.code() in STOPPING:
        raise NonRetriableError(
            f"Kafka refuses this member: {error}", hint="check credentials, ACLs and the group id"
        )


STOPPING = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)


def _text(positions: Mapping[Partition, int]) -> dict[str, int]:
    return {f"{t}-{p}": offset for (t, p), offset in positions.items()}
