"""The tables of a stream: the decoded one, the raw landing one, or both; each keeps its own marks."""

from __future__ import annotations

from dataclasses import replace

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.config.settings import Settings
from tidemark.config.stream import Stream
from tidemark.contract import records
from tidemark.contract.errors import ConfigError, TidemarkError
from tidemark.pipeline.start import Target
from tidemark.platform.session import on_databricks
from tidemark.sink.dead_letter import HEADER_BUDGET, DeadLetterTopic
from tidemark.source.clients import spark_options
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.transform import decode_plan

log = structlog.get_logger(__name__)

_MAX_MESSAGE = "max.message.bytes"
_GLANCE_S = 3.0


def targets_of(spark: SparkSession, settings: Settings, name: str, *, run: str) -> list[Target]:
    """The stream's tables, checked and resolved. Raises ConfigError with all faults found."""
    stream = settings.stream(name)
    refs = settings.tables(name, scheme="s3" if on_databricks() else "s3a")
    targets = []
    if stream.destination is not None:
        plan = decode_plan(stream, base_dir=settings.config_dir, spark=spark)
        _check_merge_columns(name, stream, plan.table_schema)
        targets.append(
            Target(
                name,
                stream,
                refs["decoded"],
                stream.destination,
                plan.table_schema,
                settings.checkpoint_root,
                run,
                plan,
            )
        )
    if stream.landing is not None:
        schema = spark.createDataFrame([], _envelope_schema()).schema
        destination = stream.landing.destination
        targets.append(
            Target(
                f"{name}.landing", stream, refs["landing"], destination, schema, settings.checkpoint_root, run
            )
        )
    return targets


def dead_letter_topic(
    settings: Settings, target: Target, topic: Topic, admin: KafkaAdmin
) -> DeadLetterTopic | None:
    """The target's DLQ topic, created with the source's partition count if absent; None for landing only.

    An existing one may take only smaller records than the source: what does not fit goes to the DLQ table,
    and a pointer to the topic. A right that the stream lacks on either topic is missed here, by its name.
    """
    admin.require(topic.name, "READ")
    if target.decode is None:
        return None
    options = target.stream.dead_letter
    name = target.stream.dlq_topic
    largest = int(admin.config(topic.name, [_MAX_MESSAGE]).get(_MAX_MESSAGE, 1_048_588))
    configs = {"cleanup.policy": "delete", _MAX_MESSAGE: str(largest + 4 * HEADER_BUDGET)}
    if options.retention is not None:
        configs["retention.ms"] = str(options.retention * 1000)
    found = admin.find(name) or admin.create(name, partitions=len(topic.partitions), configs=configs)
    admin.require(name, "WRITE")
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


def make_again_if_deleted(letters: DeadLetterTopic, admin: KafkaAdmin) -> None:
    """Creates the DLQ topic where somebody deleted it under the running stream, as its start would. Never
    raises: what could not be published is tried again anyhow.
    """
    admin = replace(admin, timeout=_GLANCE_S)
    try:
        if admin.find(letters.name) is None:
            admin.create(letters.name, partitions=letters.partitions, configs=letters.configs)
            log.warning("DLQ topic was deleted; made again", stream=letters.stream, topic=letters.name)
    except TidemarkError as error:
        log.warning("DLQ topic cannot be looked at", stream=letters.stream, error=error.message)


def _check_merge_columns(name: str, stream: Stream, schema: T.StructType) -> None:
    options = stream.idempotency
    wanted = {"merge-keys": options.merge_keys, "order-by": (options.order_by,) if options.order_by else ()}
    unknown = [f"{key}: {c}" for key, columns in wanted.items() for c in columns if c not in schema.names]
    if unknown:
        raise ConfigError(
            f"stream {name}: {', '.join(unknown)} is no column of the table",
            f"columns: {', '.join(schema.names)}",
        )


def _envelope_schema() -> T.StructType:
    parsed = T._parse_datatype_string(records.ENVELOPE_DDL)
    assert isinstance(parsed, T.StructType)
    return parsed
