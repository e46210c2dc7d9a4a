"""Names and types (Spark DDL) of the columns of records, from Kafka to the table.

Partition and offset are numbers, so that Delta can skip files by offset range.
"""

from __future__ import annotations

from typing import Final

TOPIC: Final = "stream_topic"
TOPIC_ID: Final = "stream_topic_id"
PARTITION: Final = "stream_partition"
OFFSET: Final = "stream_offset"
TIMESTAMP: Final = "message_timestamp"
TIMESTAMP_TYPE: Final = "message_timestamp_type"
KEY: Final = "message_key"
PAYLOAD: Final = "message_payload"
HEADERS: Final = "message_headers"

LAST_MILLIS: Final = (2**63 - 1) // 1000
"""The last millisecond that a TIMESTAMP, which counts microseconds, can hold. Kafka's own reach further."""

COORDINATES: Final = (TOPIC_ID, PARTITION, OFFSET)
"""The key under which a record lands once. The id is Kafka's topic ID: a recreated topic is a new source."""

HEADERS_DDL: Final = "ARRAY<STRUCT<name: STRING, value: BINARY>>"

ENVELOPE_DDL: Final = (
    f"{TOPIC} STRING, {TOPIC_ID} STRING, {PARTITION} INT, {OFFSET} BIGINT, "
    f"{TIMESTAMP} TIMESTAMP, {TIMESTAMP_TYPE} STRING, "
    f"{KEY} BINARY, {PAYLOAD} BINARY, {HEADERS} {HEADERS_DDL}"
)
"""The columns that `source` reads and a landing table has. The timestamp is NULL for a record without one (-1);
its type is `create_time` or `log_append_time`."""

ENVELOPE_COLUMNS: Final = (
    TOPIC,
    TOPIC_ID,
    PARTITION,
    OFFSET,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    KEY,
    PAYLOAD,
    HEADERS,
)

ROUTE: Final = "route"
ROW: Final = "row"
FAILURE: Final = "failure"
UNKNOWN_FIELDS: Final = "unknown_fields"

FAULT_DDL: Final = "STRUCT<field: STRING, expected: STRING, found: STRING, rule: STRING, message: STRING>"
FAILURE_DDL: Final = (
    f"STRUCT<code: STRING, stage: STRING, message: STRING, format: STRING, faults: ARRAY<{FAULT_DDL}>>"
)
"""Why a record was rejected: `code` is a FailureCode, `stage` one of decode, validate, classify, and
append where the table was unavailable; `message` is for a person, `faults` has the first twenty faults."""

PROCESSING_VERSION: Final = "processing_version"
SOURCE_TOPIC: Final = "source_topic"
EXTRA: Final = "_extra"
"""Unknown fields as a map of text, under `unknown-fields: keep`."""

ADDED_COLUMNS: Final = (
    TOPIC_ID,
    PARTITION,
    OFFSET,
    TIMESTAMP,
    SOURCE_TOPIC,
    PROCESSING_VERSION,
)
"""The columns that follow the decoded ones, in this order; all are deterministic."""
