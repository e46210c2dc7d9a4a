"""Creates the DLQ topic of a stream where it is absent, and checks an existing one."""

from __future__ import annotations

from dataclasses import replace

import structlog

from tidemark.config.settings import Settings
from tidemark.contract.dead_letters import HEADER_BUDGET
from tidemark.contract.errors import TidemarkError
from tidemark.dead_letters.topic import DeadLetterTopic
from tidemark.source.clients import spark_options
from tidemark.source.topics import CLEANUP_POLICY, KafkaAdmin, Topic
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)

_MAX_MESSAGE = "max.message.bytes"
_GLANCE_S = 3.0


def dead_letter_topic(
    settings: Settings, target: Target, topic: Topic, admin: KafkaAdmin
) -> DeadLetterTopic | None:
    """The target's DLQ topic, created with the source's partition count if absent; None for landing only.

    An existing one may take only smaller records than the source: what does not fit goes to the DLQ table,
    and a pointer to the topic. Raises NonRetriableError for a permission that the stream lacks on either topic,
    which it names, and for a DLQ topic that would lose dead letters.
    """
    admin.require(topic.name, "READ")
    if target.decode is None:
        return None
    options = target.stream.dead_letter
    name = target.stream.dlq_topic
    largest = int(admin.config(topic.name, [_MAX_MESSAGE]).get(_MAX_MESSAGE, 1_048_588))
    configs = {
        CLEANUP_POLICY: "delete",
        # The broker's clock: a writer's timestamp may be one that a reader cannot hold.
        "message.timestamp.type": "LogAppendTime",
        _MAX_MESSAGE: str(largest + 4 * HEADER_BUDGET),
    }
    if options.retention is not None:
        configs["retention.ms"] = str(options.retention * 1000)
    found = admin.find(name) or admin.create(name, partitions=len(topic.partitions), configs=configs)
    admin.require(name, "WRITE")
    admin.require_uncompacted(name)
    accepts = int(admin.config(name, [_MAX_MESSAGE]).get(_MAX_MESSAGE, largest))
    if accepts < largest + HEADER_BUDGET:
        log.warning(
            "dead letters may not fit the DLQ topic; the bytes of those go to the DLQ table alone",
            topic=name,
            accepts=accepts,
            wanted=largest + HEADER_BUDGET,
        )
    return DeadLetterTopic(
        name=name,
        partitions=len(found.partitions),
        stream=target.name,
        table=target.table,
        group=settings.kafka.consumer.group_id,
        max_bytes=accepts,
        client_options=spark_options(settings.kafka),
        timeout_ms=round(options.publish_timeout * 1000),
        format=options.format,
        configs=configs,
    )


def recreate_if_deleted(dead_letters: DeadLetterTopic, admin: KafkaAdmin) -> None:
    """Creates the DLQ topic as the start does, where it was deleted while the stream runs. Never raises,
    because the publication is retried anyway.
    """
    admin = replace(admin, timeout=_GLANCE_S)
    try:
        if admin.find(dead_letters.name) is None:
            admin.create(dead_letters.name, partitions=dead_letters.partitions, configs=dead_letters.configs)
            log.warning(
                "DLQ topic was deleted; created again", stream=dead_letters.stream, topic=dead_letters.name
            )
    except TidemarkError as error:
        log.warning("DLQ topic cannot be looked at", stream=dead_letters.stream, error=error.message)
