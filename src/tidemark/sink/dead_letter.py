"""The DLQ topic: rejected records with their bytes untouched and their reason in the headers (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.failure_codes import FailureCode

HEADER_PREFIX = "__dlq.errors."
HEADER_BUDGET = 16 * 1024
_MESSAGE_LIMIT = 2000

REJECTED_COLUMNS = (*records.ENVELOPE_COLUMNS, records.FAILURE)
"""What a dead letter is made of: the envelope and the failure."""


@dataclass(frozen=True)
class DeadLetterTopic:
    """Where dead letters go. `partitions` is the topic's own count: a source partition beyond it is
    taken modulo. Records larger than `max_bytes` are published without value, with a pointer instead.
    """

    name: str
    partitions: int
    stream: str
    group: str
    max_bytes: int
    client_options: Mapping[str, str]
    timeout_ms: int = 30_000

    def publish(self, rejected: DataFrame) -> None:
        """Publish and return when every acknowledgement is there. At least once: the DLQ table, keyed by
        coordinates, holds each dead letter once.

        In: REJECTED_COLUMNS. Raises what Spark's Kafka sink raises; nothing is acknowledged half.
        """
        letters = rejected.select(
            F.lit(self.name).alias("topic"),
            (F.col(records.PARTITION) % self.partitions).alias("partition"),
            F.col(records.KEY).alias("key"),
            F.when(~self._too_large(), F.col(records.PAYLOAD)).alias("value"),
            self._headers().alias("headers"),
        )
        (
            letters.write.format("kafka")
            .options(**self.client_options)
            .option("includeHeaders", "true")
            .option("kafka.acks", "all")
            .option("kafka.enable.idempotence", "true")
            .option("kafka.max.block.ms", str(self.timeout_ms))
            .option("kafka.request.timeout.ms", str(self.timeout_ms // 2))
            .option("kafka.delivery.timeout.ms", str(self.timeout_ms))
            .option("kafka.max.request.size", str(max(self.max_bytes, 1_048_576) + 65_536))
            .save()
        )

    def _too_large(self) -> Column:
        size = F.coalesce(F.octet_length(F.col(records.PAYLOAD)), F.lit(0)) + F.coalesce(
            F.octet_length(F.col(records.KEY)), F.lit(0)
        )
        return size + HEADER_BUDGET > self.max_bytes

    def _headers(self) -> Column:
        failure = F.col(records.FAILURE)
        milliseconds = F.unix_millis(F.col(records.TIMESTAMP))
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
            "envelope.version": F.lit("1.0"),
            "value.omitted": F.when(self._too_large(), F.octet_length(F.col(records.PAYLOAD)).cast("string")),
        }
        added = [
            F.when(
                value.isNotNull(),
                F.struct(F.lit(HEADER_PREFIX + name).alias("key"), F.encode(value, "UTF-8").alias("value")),
            )
            for name, value in ours.items()
        ]
        kept = F.transform(
            F.filter(
                F.coalesce(F.col(records.HEADERS), F.array().cast(records.HEADERS_DDL)),
                lambda h: ~h["name"].startswith(HEADER_PREFIX),
            ),
            lambda h: F.struct(h["name"].alias("key"), h["value"].alias("value")),
        )
        return F.concat(kept, F.array_compact(F.array(*added)))
