"""Publishes report requests, key = requestId, and waits for the broker to acknowledge each."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidemark.config.reports import Reports
from tidemark.contract.errors import RetriableError
from tidemark.reports.requests.store import StatusRow

GENERATION = "tidemark.report.generation"
"""Header: how often the request was submitted or retried when this event was published."""


class NotPublished(RetriableError):
    condition = "TIDEMARK_NOT_PUBLISHED"


class Publisher(Protocol):
    def publish(self, row: StatusRow) -> None: ...


class ReportEventPublisher:
    """Partitions by murmur2 of the key, as Java's clients do, so that producers of both kinds agree on the
    partition of a request. Thread-safe. Provenance travels in headers; the payload stays as documented.
    """

    def __init__(self, producer: Mapping[str, object], *, topic: str, timeout: float = 30.0) -> None:
        self._producer = Producer(
            {
                **producer,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": max(1000, int(timeout * 1000)),
            }
        )
        self._topic = topic
        self._timeout = timeout

    def publish(self, row: StatusRow) -> None:
        """Raises `NotPublished` unless the broker acknowledged it in time."""
        answered = threading.Event()
        failure: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failure.append(error)
            answered.set()

        try:
            self._producer.produce(
                self._topic,
                key=row.request.request_id.encode(),
                value=row.request.to_wire(),
                headers=[
                    ("correlation_id", row.correlation_id.encode()),
                    (GENERATION, str(row.generation).encode()),
                    ("content-type", b"application/json"),
                ],
                on_delivery=delivered,
            )
        except (KafkaException, BufferError) as error:
            raise NotPublished(f"request {row.request.request_id} was not published: {error}") from error
        deadline = time.monotonic() + self._timeout
        while not answered.is_set() and time.monotonic() < deadline:
            self._producer.poll(0.05)
        if failure or not answered.is_set():
            why = failure[0] if failure else "no acknowledgement in time"
            raise NotPublished(f"request {row.request.request_id} was not published: {why}")


def ensure_topics(connection: Mapping[str, Any], settings: Reports, *, timeout: float = 30.0) -> list[str]:
    """Creates the request topic and its DLQ with the same number of partitions; returns those created."""
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
            raise NotPublished(f"the topics {', '.join(created)} were created, but do not show")
        time.sleep(0.1)
    return created


def _shows(admin: AdminClient, topic: str) -> bool:
    return admin.list_topics(topic, timeout=10).topics[topic].error is None
