"""Publishes given-up records to the DLQ topic and waits for the broker to acknowledge each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from tidemark.config.listener import Listener
from tidemark.contract.dead_letters import ERRORS_PREFIX, FIRST_HEADER, HEADER_BUDGET, REPLAY_COUNT
from tidemark.contract.errors import ConfigError, RetriableError
from tidemark.listener.delivery.batch import Headers, Record
from tidemark.listener.delivery.settlement import GivenUp
from tidemark.listener.producer import AcknowledgedProducer
from tidemark.source.topics import CLEANUP_POLICY, require_uncompacted

log = structlog.get_logger("tidemark.listener")

MESSAGE_LIMIT = 2048
_MESSAGE = f"{ERRORS_PREFIX}message"


class DeadLettersNotWritten(RetriableError):
    condition = "TIDEMARK_DLQ"


class DeadLetterPublisher:
    """Same key, value, headers and partition as the source record, with text headers about the failure.

    A DLQ topic with fewer partitions gets them modulo. A message that is too large loses the message header,
    then its value, of which a pointer to the source record remains.
    """

    def __init__(self, settings: Listener, connection: Mapping[str, object]) -> None:
        self._settings = settings
        self._connection: dict[str, Any] = dict(connection)
        self._producer = AcknowledgedProducer(connection, timeout=settings.dlq_timeout)
        self._partitions: dict[str, int] = {}

    def check(self, topic: str, partitions: int) -> None:
        """Warns if the DLQ topic has fewer partitions.

        Raises ConfigError if it is missing, NonRetriableError if it is compacted.
        """
        dlq = self._settings.dlq_topic_of(topic)
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
        for fit in (_whole, _without_message, _without_value):
            errors = self._producer.send([self._message(one, fit) for one in waiting], keep_alive=keep_alive)
            failed = [(one, error) for one, error in zip(waiting, errors, strict=True) if error is not None]
            lost = [(one, e) for one, e in failed if e.code() != KafkaError.MSG_SIZE_TOO_LARGE]
            if lost:
                first, error = lost[0]
                raise DeadLettersNotWritten(
                    f"{len(lost)} not acknowledged, the first {first.record.coordinates}: {error}"
                )
            waiting = [one for one, _ in failed]
            if not waiting:
                return
        raise DeadLettersNotWritten(
            f"{waiting[0].record.coordinates} is too large for the DLQ topic, even without value"
        )

    def close(self) -> None:
        self._producer.close()

    def _message(self, given_up: GivenUp, fit: Fit) -> dict[str, Any]:
        record = given_up.record
        dlq = self._settings.dlq_topic_of(record.topic)
        value, headers = fit(
            record, dead_letter_headers(given_up, group=self._settings.group_id, failed_at=datetime.now(UTC))
        )
        return {
            "topic": dlq,
            "key": record.key,
            "value": value,
            "headers": list(headers),
            "partition": record.partition % max(1, self._partitions_of(dlq)),
        }

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
                self._partitions[topic] = self._producer.partitions_of(topic)
            except KafkaException as error:
                raise DeadLettersNotWritten(
                    f"cannot look up the DLQ topic {topic}: {error.args[0]}"
                ) from error
        return self._partitions[topic]


Fit = Callable[[Record, Headers], tuple[bytes | None, Headers]]


def dead_letter_headers(given_up: GivenUp, *, group: str, failed_at: datetime) -> Headers:
    """The record's own headers in their order, then Tidemark's as text; at most 16 KiB together.

    Tidemark's describe the consumed record alone. Headers of the same names that the record brings, such as those
    of an earlier dead letter, stay in front of them and count for nothing: a producer can forge them.
    """
    record, failure = given_up.record, given_up.failure
    replays = record.header(REPLAY_COUNT) or b""
    facts: dict[str, object | None] = {
        # The topic comes first (FIRST_HEADER).
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "correlation.id": record.correlation_id,
        "replay.count": int(replays) if replays.isdigit() and len(replays) < 10 else 0,
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
    ours = [(ERRORS_PREFIX + name, str(value).encode()) for name, value in facts.items() if value is not None]
    budget = HEADER_BUDGET - sum(len(n) + len(v) for n, v in ours)
    kept: list[tuple[str, bytes | None]] = []
    for name, value in record.headers:
        budget -= len(name) + len(value or b"")
        if budget >= 0:
            kept.append((name, value))
    return (*kept, *ours)


def _whole(record: Record, headers: Headers) -> tuple[bytes | None, Headers]:
    return record.value, headers


def _without_message(record: Record, headers: Headers) -> tuple[bytes | None, Headers]:
    return record.value, tuple(header for header in headers if header[0] != _MESSAGE)


def _without_value(record: Record, headers: Headers) -> tuple[bytes | None, Headers]:
    begin = max(index for index, (name, _) in enumerate(headers) if name == FIRST_HEADER)
    return None, (*headers[begin:], (f"{ERRORS_PREFIX}value.pointer", record.coordinates.encode()))
