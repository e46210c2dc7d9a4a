"""Publishes report requests, key = requestId, and waits for the broker to acknowledge each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from confluent_kafka import KafkaError

from tidemark.config.reports import Reports
from tidemark.contract.errors import RetriableError
from tidemark.listener.producer import AcknowledgedProducer
from tidemark.reports.requests.store import StatusRow
from tidemark.source.topics import CLEANUP_POLICY, KafkaAdmin

GENERATION = "tidemark.report.generation"
"""Header: how often the request was submitted or retried when this event was published."""


class NotPublished(RetriableError):
    condition = "TIDEMARK_NOT_PUBLISHED"


class TooLarge(NotPublished):
    """The event of this request alone; other ones may be published."""


class Publisher(Protocol):
    def publish(self, row: StatusRow) -> None: ...


class ReportEventPublisher:
    """Thread-safe. Provenance travels in headers; the payload stays as documented."""

    def __init__(self, connection: Mapping[str, object], *, topic: str, timeout: float = 30.0) -> None:
        self._producer = AcknowledgedProducer(connection, timeout=timeout)
        self._topic = topic

    def publish(self, row: StatusRow) -> None:
        """Raises `NotPublished` unless the broker acknowledged it in time."""
        message = {
            "topic": self._topic,
            "key": row.request.request_id.encode(),
            "value": row.request.to_wire(),
            "headers": [
                ("correlation_id", row.correlation_id.encode()),
                (GENERATION, str(row.generation).encode()),
                ("content-type", b"application/json"),
            ],
        }
        (error,) = self._producer.send([message])
        if error is not None:
            kind = TooLarge if error.code() == KafkaError.MSG_SIZE_TOO_LARGE else NotPublished
            raise kind(f"request {row.request.request_id} was not published: {error}")


def ensure_topics(admin: KafkaAdmin, settings: Reports) -> list[str]:
    """Creates the request topic and its DLQ topic with the same number of partitions; returns those created."""
    absent = [name for name in (settings.topic, settings.dlq) if admin.find(name) is None]
    for name in absent:
        admin.create(
            name,
            partitions=settings.partitions,
            replication=settings.replication,
            configs={CLEANUP_POLICY: "delete"},
        )
    return absent
