"""A dead letter as a row: names and types of the DLQ table and of its status table."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from tidemark.contract import records

ERRORS_PREFIX: Final = "__dlq.errors."
FIRST_HEADER: Final = f"{ERRORS_PREFIX}topic"
"""Tidemark's headers of a dead letter begin at the last header of this name and reach to the end."""
HEADER_BUDGET: Final = 16 * 1024
"""Bytes that a dead letter reserves for headers."""
REPLAY_PREFIX: Final = "__dlq.replay."
REPLAYED_FROM: Final = f"{REPLAY_PREFIX}coordinates"
"""Header of a republished record: the coordinates of its dead letter. Exempts it from fingerprints."""
REPLAY_COUNT: Final = f"{REPLAY_PREFIX}count"

ENVELOPE_VERSION: Final = "1.0"
BASE64_PREFIX: Final = "base64:"
"""The prefix of a base64 key or value: one that is not UTF-8 text, or that begins with these characters."""

UNKNOWN_CODE: Final = "UNKNOWN"
"""The failure code of a dead letter that another program wrote."""

DEAD_LETTER_ID: Final = "letter_id"

DEAD_LETTER_DDL: Final = (
    f"{DEAD_LETTER_ID} STRING, {records.ENVELOPE_DDL}, "
    "stream STRING, consumer_group STRING, "
    "failure_code STRING, failure_stage STRING, failure_message STRING, failure_class STRING, "
    "payload_format STRING, payload_omitted BIGINT, retriable BOOLEAN, replay_count INT, "
    "written_as STRING, failed_at TIMESTAMP, dlq_topic STRING, dlq_partition INT, dlq_offset BIGINT"
)
"""One row per dead letter, immutable. `letter_id` is the coordinates as one text, `topic id:partition:offset`
(the topic's name where the id is unknown). The envelope is that of the original record. `payload_omitted` is
the size of a value that was too large for the DLQ topic and is not in this table either. `written_as`:
headers, envelope, spring, connect, or unknown. `failed_at` and `dlq_…` are those of the DLQ record."""

STATUS_DDL: Final = (
    f"{DEAD_LETTER_ID} STRING, {records.PARTITION} INT, {records.OFFSET} BIGINT, "
    "status STRING, attempts INT, at TIMESTAMP, by STRING, note STRING, edit STRING, table_version BIGINT, "
    "sequence BIGINT"
)
"""The events of dead letters, one per row, append-only; the one of the highest `sequence` is the status. Its
writer takes the next `sequence` after the event that it read: host clocks do not decide. `attempts` counts failed
replays. `table_version`: a version from which on the row of a resolved dead letter is in the table. `edit`: how
its value was fixed."""


class DeadLetterStatus(StrEnum):
    """A dead letter without an event is NEW."""

    NEW = "new"
    REPLAYED = "replayed"
    """Published again to its source topic, as a new record."""
    RESOLVED = "resolved"
    """Its row is in the table."""
    PARKED = "parked"
    """Replayed too often, or put aside by a person; replayed only by name."""
    DISCARDED = "discarded"
    """A person marked it as not wanted."""


OPEN: Final = (DeadLetterStatus.NEW, DeadLetterStatus.REPLAYED, DeadLetterStatus.PARKED)
"""The statuses of dead letters whose record is neither in the table nor discarded."""
