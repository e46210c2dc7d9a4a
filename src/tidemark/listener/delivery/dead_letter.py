"""Publishes given-up records to the DLQ topic and waits for the broker to acknowledge each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tidemark.contract.errors import ConfigError, RetriableError
from tidemark.listener.delivery.batch import Headers, Record
from tidemark.listener.delivery.settlement import GivenUp
from tidemark.source.topics import CLEANUP_POLICY, require_uncompacted

log = structlog.get_logger("tidemark.listener")

PREFIX = "__dlq.errors."
HEADER_BUDGET = 16 * 1024
MESSAGE_LIMIT = 2048
# Facts of the first failure stay as they are when a record is dead-lettered again after a replay.
KEPT = ("topic", "partition", "offset", "timestamp", "correlation.id", "replay.count")


class DeadLettersNotWritten(RetriableError):
    condition = "TIDEMARK_DLQ"


class DeadLetterPublisher:
    """Same key, value, headers and partition as the source record, with text headers that say why.

    A DLQ topic with fewer partitions gets them modulo. What is too large loses the message header,
    then its value, of which a pointer to the source record remains.
    """

    def __init__(
        self,
        producer: Mapping[str, object],
        *,
        group: str,
        dlq_topic_of: Callable[[str], str],
        timeout: float = 30.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection: dict[str, Any] = dict(producer)
        self._producer = Producer(
            {
                **producer,
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": max(1000, int(timeout * 1000)),
            }
        )
        self._group = group
        self._dlq_topic_of = dlq_topic_of
        self._timeout = timeout
        self._now = now
        self._monotonic = monotonic
        self._partitions: dict[str, int] = {}

    def check(self, topic: str, partitions: int) -> None:
        """Raises `ConfigError` if the DLQ topic is missing, NonRetriableError if it is compacted; warns if it
        has fewer partitions.
        """
        dlq = self._dlq_topic_of(topic)
        found = self._partitions_of(dlq)
        if not found:
            raise ConfigError(
                f"the DLQ topic {dlq} does not exist",
                hint=f"create it with {partitions} partitions and cleanup.policy=delete",
            )
        require_uncompacted(dlq, self._policy_of(dlq), str(self._connection.get("bootstrap.servers")))
        if found < partitions:
            log.warning(
                "DLQ topic has fewer partitions than its source", dlq=dlq, partitions=found, source=partitions
            )

    def publish(self, given_up: Sequence[GivenUp], *, keep_alive: Callable[[], None] = lambda: None) -> None:
        """Returns once all are acknowledged, else raises `DeadLettersNotWritten`."""
        waiting = list(given_up)
        for shrink in (_nothing, _without_message, _without_value):
            outcomes = self._send(waiting, shrink, keep_alive)
            waiting = [
                g
                for g, error in outcomes
                if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
            ]
            lost = [
                (g, e) for g, e in outcomes if e is not None and e.code() != KafkaError.MSG_SIZE_TOO_LARGE
            ]
            if lost:
                first, error = lost[0]
                raise DeadLettersNotWritten(
                    f"{len(lost)} not acknowledged, the first {first.record.coordinates}: {error}"
                )
            if not waiting:
                return
        raise DeadLettersNotWritten(
            f"{waiting[0].record.coordinates} is too large for the DLQ topic, even without value"
        )

    def close(self) -> None:
        self._producer.flush(5)

    def _send(
        self, given_up: Sequence[GivenUp], shrink: Shrink, keep_alive: Callable[[], None]
    ) -> list[tuple[GivenUp, KafkaError | None]]:
        answers: dict[int, KafkaError | None] = {}
        for index, one in enumerate(given_up):
            headers = dead_letter_headers(one, group=self._group, failed_at=self._now())
            value, headers = shrink(one.record, headers)

            def answered(error: KafkaError | None, _: Any, index: int = index) -> None:
                answers[index] = error

            dlq = self._dlq_topic_of(one.record.topic)
            try:
                self._producer.produce(
                    dlq,
                    key=one.record.key,
                    value=value,
                    headers=list(headers),
                    partition=one.record.partition % max(1, self._partitions_of(dlq)),
                    on_delivery=answered,
                )
            except KafkaException as error:
                answers[index] = error.args[0]
            except BufferError:
                answers[index] = KafkaError(KafkaError._QUEUE_FULL)
        deadline = self._monotonic() + self._timeout
        while len(answers) < len(given_up) and self._monotonic() < deadline:
            self._producer.poll(0.05)
            keep_alive()
        timed_out = KafkaError(KafkaError._MSG_TIMED_OUT)
        return [(one, answers.get(index, timed_out)) for index, one in enumerate(given_up)]

    def _policy_of(self, topic: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        client = AdminClient(self._connection)
        try:
            found = client.describe_configs([resource], request_timeout=10)[resource].result(15)
        except (KafkaException, TimeoutError) as error:
            log.warning("the DLQ topic's configuration cannot be read", dlq=topic, error=str(error))
            return ""
        return str(found[CLEANUP_POLICY].value)

    def _partitions_of(self, topic: str) -> int:
        if not self._partitions.get(topic):
            try:
                listed = self._producer.list_topics(topic, timeout=10).topics[topic]
            except KafkaException as error:
                raise DeadLettersNotWritten(
                    f"cannot look up the DLQ topic {topic}: {error.args[0]}"
                ) from error
            self._partitions[topic] = 0 if listed.error else len(listed.partitions)
        return self._partitions[topic]


Shrink = Callable[[Record, Headers], tuple[bytes | None, Headers]]


def dead_letter_headers(given_up: GivenUp, *, group: str, failed_at: datetime) -> Headers:
    """The record's own headers in their order, then ours as text, each name once; at most 16 KiB together."""
    record, failure = given_up.record, given_up.failure
    facts: dict[str, object | None] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "correlation.id": record.correlation_id,
        "replay.count": 0,
        "group": group,
        "delivery.count": given_up.attempts,
        "exception.class.name": failure.exception_class,
        "cause.class.name": failure.cause_class,
        "message": failure.message[:MESSAGE_LIMIT],
        "condition": failure.condition,
        "sqlstate": failure.sqlstate,
        "category": failure.category,
        "retriable": str(failure.retriable).lower(),
        "stage": "listener",
        "failed.at": failed_at.isoformat(timespec="milliseconds"),
    }
    for name in KEPT:
        earlier = record.header(PREFIX + name)
        if earlier is not None:
            facts[name] = earlier.decode("utf-8", errors="replace")[:MESSAGE_LIMIT]
    ours = [(PREFIX + name, str(value).encode()) for name, value in facts.items() if value is not None]
    budget = HEADER_BUDGET - sum(len(n) + len(v) for n, v in ours)
    kept: list[tuple[str, bytes | None]] = []
    for name, value in record.headers:
        budget -= len(name) + len(value or b"")
        if not name.startswith(PREFIX) and budget >= 0:
            kept.append((name, value))
    return (*kept, *ours)


def _nothing(record: Record, headers: Headers) -> tuple[bytes | None, Headers]:
    return record.value, headers


def _without_message(record: Record, headers: Headers) -> tuple[bytes | None, Headers]:
    return record.value, tuple((n, v) for n, v in headers if n != PREFIX + "message")


def _without_value(record: Record, headers: Headers) -> tuple[bytes | None, Headers]:
    pointer = (PREFIX + "value.pointer", record.coordinates.encode())
    return None, (*(h for h in headers if h[0].startswith(PREFIX)), pointer)
