"""Publishes report requests, key = requestId, and waits for the broker to acknowledge each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidemark.config.reports import Reports
from tidemark.contract.errors import RetriableError
from tidemark.listener.producer import AcknowledgedProducer
from tidemark.reports.requests.store import StatusRow

GENERATION = "tidemark.report.generation"
"""Header: how often the request was submitted or retried when this event was published."""


class NotPublished(RetriableError):
    condition = "TIDEMARK_NOT_PUBLISHED"


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
            raise NotPublished(f"request {row.request.request_id} was not published: {error}")


def ensure_topics(connection: Mapping[str, Any], settings: Reports, *, timeout: float = 30.0) -> list[str]:
    """Creates the request topic and its DLQ topic with the same number of partitions; returns those created."""
    admin = AdminClient(dict(connection))
    wanted = [
        NewTopic(
            name,
            num_partitions=settings.partitions,
            replication_factor=settings.replication,
            config={"cleanup.policy": "delete"},
        )
        for name in (settings.topic, settings.dlq)
    ]
    created: list[str] = []
    for name, future in admin.create_topics(wanted, operation_timeout=timeout).items():
        try:
            future.result(timeout)
            created.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    deadline = time.monotonic() + timeout
    while any(not _shows(admin, topic) for topic in created):
        if time.monotonic() > deadline:
            raise NotPublished(
                f"the topics {', '.join(created)} were created, but the broker does not show them"
            )
        time.sleep(0.1)
    return created


def _shows(admin: AdminClient, topic: str) -> bool:
    return admin.list_topics(topic, timeout=10).topics[topic].error is None
