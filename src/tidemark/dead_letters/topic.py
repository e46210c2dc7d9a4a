"""The DLQ topic: publishes rejected records with their bytes untouched and the failure in headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.dead_letters import BASE64_PREFIX, ENVELOPE_VERSION, ERRORS_PREFIX
from tidemark.contract.failure_codes import FailureCode
from tidemark.dead_letters.headers import for_sink
from tidemark.transform.content import headers_size, octets

_MESSAGE_LIMIT = 2000
_OTHER_HEADERS = 2048
"""Most bytes of a record other than key, value, its own headers and the message."""
_OF_A_HEADER = 10
"""Most bytes for the lengths of a header's name and value: most of the size of thousands of short headers."""

REJECTED_COLUMNS = (*records.ENVELOPE_COLUMNS, records.FAILURE)
"""The columns that a dead letter is made of: the envelope and the failure."""


@dataclass(frozen=True)
class DeadLetterTopic:
    """The DLQ topic of one landed table. `partitions` is the topic's own count: a source partition beyond it is
    taken modulo. A record larger than `max_bytes` is published without value, and with its size in a header;
    without key and headers of its own too, where these alone do not fit. Its bytes belong in the DLQ table
    (`oversized`). In the format `envelope` the value is the envelope of version 1.0; the headers are the same.
    `configs`: the topic's configuration when Tidemark creates it.
    """

    name: str
    partitions: int
    stream: str
    table: TableRef
    group: str
    max_bytes: int
    client_options: Mapping[str, str]
    timeout_ms: int = 30_000
    format: str = "headers"
    configs: Mapping[str, str] = field(default_factory=dict)

    def publish(self, rejected: DataFrame) -> None:
        """Publish, and return once every record is acknowledged. At least once: the DLQ table, keyed by
        coordinates, holds each dead letter once.

        In: REJECTED_COLUMNS. Raises the errors of Spark's Kafka sink.
        """
        largest = max(self.max_bytes, 1_048_576) + 65_536
        (
            self.records(rejected)
            .write.format("kafka")
            .options(**self.client_options)
            .option("includeHeaders", "true")
            .option("kafka.acks", "all")
            .option("kafka.enable.idempotence", "true")
            .option("kafka.max.block.ms", str(self.timeout_ms))
            .option("kafka.request.timeout.ms", str(self.timeout_ms // 2))
            .option("kafka.delivery.timeout.ms", str(self.timeout_ms))
            .option("kafka.max.request.size", str(largest))
            # One record must fit; Kafka's own 32 MB otherwise.
            .option("kafka.buffer.memory", str(max(largest, 32 * 1024 * 1024)))
            .save()
        )

    def records(self, rejected: DataFrame) -> DataFrame:
        """The rejected records with the columns of Spark's Kafka sink."""
        return rejected.select(*self._columns)

    @cached_property
    def _columns(self) -> list[Column]:
        """Built once: hundreds of calls to the JVM take twice as long as publishing what a batch rejects."""
        return [
            F.lit(self.name).alias("topic"),
            (F.col(records.PARTITION) % self.partitions).alias("partition"),
            F.when(~self._bare(), F.col(records.KEY)).alias("key"),
            F.when(~self.too_large(), self._value()).alias("value"),
            self._headers().alias("headers"),
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_columns"}

    def too_large(self) -> Column:
        """Whether a record with its headers may not fit the topic."""
        return self._size_without_value() + octets(self._value()) > self.max_bytes

    def _bare(self) -> Column:
        """Whether the record may not fit without its value either."""
        return self._size_without_value() > self.max_bytes

    def _size_without_value(self) -> Column:
        message = F.substring(F.col(records.FAILURE)["message"], 1, _MESSAGE_LIMIT)
        return (
            octets(F.col(records.KEY)) + octets(message) + headers_size(of_each=_OF_A_HEADER) + _OTHER_HEADERS
        )

    def _value(self) -> Column:
        return F.col(records.PAYLOAD) if self.format == "headers" else F.encode(_envelope(), "UTF-8")

    def _headers(self) -> Column:
        failure = F.col(records.FAILURE)
        milliseconds = F.unix_millis(F.col(records.TIMESTAMP))
        # The topic first and once, everything behind the producer's headers: `headers.py` relies on it.
        ours = {
            "topic": F.col(records.TOPIC),
            "topic.id": F.col(records.TOPIC_ID),
            "partition": F.col(records.PARTITION).cast("string"),
            "offset": F.col(records.OFFSET).cast("string"),
            "timestamp": milliseconds.cast("string"),
            "timestamp.type": F.col(records.TIMESTAMP_TYPE),
            "group": F.lit(self.group),
            "stream": F.lit(self.stream),
            "category": failure["code"],
            "stage": failure["stage"],
            "message": F.substring(failure["message"], 1, _MESSAGE_LIMIT),
            "format": failure["format"],
            "retriable": (failure["code"] == FailureCode.DEPENDENCY_UNAVAILABLE.value).cast("string"),
            "envelope.version": F.lit(ENVELOPE_VERSION),
            "written.as": F.lit(self.format),
            "value.omitted": F.when(self.too_large(), F.octet_length(F.col(records.PAYLOAD)).cast("string")),
        }
        kept = F.coalesce(F.when(~self._bare(), F.col(records.HEADERS)), F.array().cast(records.HEADERS_DDL))
        return for_sink(kept, {ERRORS_PREFIX + name: value for name, value in ours.items()})


def _envelope() -> Column:
    """The twelve fields in their order. A rejected record raised no exception, so the stack trace is NULL."""
    failure = F.col(records.FAILURE)
    retriable = failure["code"] == FailureCode.DEPENDENCY_UNAVAILABLE.value
    fields = {
        "original_topic": F.col(records.TOPIC),
        "original_partition": F.col(records.PARTITION).cast("string"),
        "original_offset": F.col(records.OFFSET),
        "original_key": _as_text(F.col(records.KEY)),
        "original_value": _as_text(F.col(records.PAYLOAD)),
        "original_timestamp": F.col(records.TIMESTAMP),
        "error_reason": failure["code"],
        "error_message": F.substring(failure["message"], 1, _MESSAGE_LIMIT),
        "error_class": F.when(retriable, F.lit("RetriableException")).otherwise("NonRetriableException"),
        "error_stack_trace": F.lit(None).cast("string"),
        "dlq_timestamp": F.current_timestamp(),
        "dlq_version": F.lit(ENVELOPE_VERSION),
    }
    named = F.struct(*[value.alias(name) for name, value in fields.items()])
    moments = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "timeZone": "UTC"}
    return F.to_json(named, {"ignoreNullFields": "false", **moments})


def _as_text(payload: Column) -> Column:
    text = payload.cast("string")
    plain = F.is_valid_utf8(text) & ~text.startswith(BASE64_PREFIX)
    return F.when(plain, text).otherwise(F.concat(F.lit(BASE64_PREFIX), F.base64(payload)))
