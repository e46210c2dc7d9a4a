"""Detects, by Kafka's own topic ids, that a topic is no longer the one that the listener's offsets belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from tidemark.contract.errors import NonRetriableError

ASKED_EVERY = 10.0
"""Seconds between two looks while nothing is committed."""


class TopicRecreated(NonRetriableError):
    """Offsets of the former topic mean nothing in its successor."""

    condition = "TIDEMARK_TOPIC_MADE_AGAIN"

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} was deleted and created again while the listener read it",
            hint="start the listener again: it begins where `auto-offset-reset` says, and skips nothing",
        )


class TopicIdentity:
    """The ids of the topics at the first look. Never raises: without an answer nothing has changed."""

    def __init__(self, connection: Mapping[str, Any], topics: Iterable[str], *, timeout: float = 2.0) -> None:
        self.recreated: set[str] = set()
        self._topics = list(topics)
        self._timeout = timeout
        self.known: dict[str, str] = {}
        self._client = AdminClient(dict(connection))

    def look(self) -> set[str]:
        """The topics that were created again since the first look."""
        futures = self._client.describe_topics(TopicCollection(self._topics), request_timeout=self._timeout)
        for name, future in futures.items():
            try:
                found = str(future.result(self._timeout + 1).topic_id)
            except (KafkaException, TimeoutError):
                continue
            if self.known.setdefault(name, found) != found:
                self.recreated.add(name)
        return self.recreated
