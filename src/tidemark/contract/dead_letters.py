"""A dead letter as a row: names and shapes of the DLQ table and of the status table beside it."""

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
"""Header of a record that was published again: the dead letter it came from. Exempts it from fingerprints."""
REPLAY_COUNT: Final = f"{REPLAY_PREFIX}count"

ENVELOPE_VERSION: Final = "1.0"
BASE64_PREFIX: Final = "base64:"
"""A key or value that is no UTF-8 text, or begins with these very characters, is base64 behind them."""

UNKNOWN_CODE: Final = "UNKNOWN"
"""The failure code of a dead letter that another program wrote: codes are ours alone."""

DEAD_LETTER_ID: Final = "letter_id"

DEAD_LETTER_DDL: Final = (
    f"{DEAD_LETTER_ID} STRING, {records.ENVELOPE_DDL}, "
    "stream STRING, consumer_group STRING, "
    "failure_code STRING, failure_stage STRING, failure_message STRING, failure_class STRING, "
    "payload_format STRING, payload_omitted BIGINT, retriable BOOLEAN, replay_count INT, "
    "written_as STRING, failed_at TIMESTAMP, dlq_topic STRING, dlq_partition INT, dlq_offset BIGINT"
)
"""One row a dead letter, never changed. `letter_id` is the coordinates as one text,
`topic id:partition:offset` (the topic's name where the id is not known). The envelope is the
record's as it was read first. `payload_omitted` is the size of a value that
was too large for the DLQ topic and is not here either.
`written_as`: headers, envelope, spring, connect, or unknown. `failed_at`, `dlq_…`: of the DLQ record."""

STATUS_DDL: Final = (
    f"{DEAD_LETTER_ID} STRING, {records.PARTITION} INT, {records.OFFSET} BIGINT, "
    "status STRING, attempts INT, at TIMESTAMP, by STRING, note STRING, edit STRING, table_version BIGINT, "
    "sequence BIGINT"
)
"""What became of a dead letter: an event a row, append-only; the one of the highest `sequence` holds. Each event
counts on from the one that its writer saw: the clocks of hosts do not decide. `attempts` counts
failed replays. `table_version`: a commit from which on a resolved letter's row is in the table. `edit`: how
its value was fixed."""


class DeadLetterStatus(StrEnum):
    """A dead letter without an event is NEW."""

    NEW = "new"
    REPLAYED = "replayed"
    """Published again to its source topic; what became of it there is another record's story."""
    RESOLVED = "resolved"
    """Its row is in the table."""
    PARKED = "parked"
    """Replayed too often, or put aside by a person; replayed only when named."""
    DISCARDED = "discarded"
    """A person decided that it is not wanted."""


OPEN: Final = (DeadLetterStatus.NEW, DeadLetterStatus.REPLAYED, DeadLetterStatus.PARKED)
"""Dead letters whose record is neither in the table nor given up."""
