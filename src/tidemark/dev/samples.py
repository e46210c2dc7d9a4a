"""Sample user events in JSON, CSV and Avro, good and bad, the same ones for the same seed.

Their schema is `conf/schemas/user-events.ddl`. Each event has its expected outcome, so that a demo can
compare the tables with it.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final

import fastavro

from tidemark.config.decoding import Format
from tidemark.contract.failure_codes import FailureCode
from tidemark.dev.producers import SampleRecord

START: Final = datetime(2024, 1, 15, tzinfo=UTC)
EVENT_TYPES: Final = ("click", "view", "purchase", "refund")
CONTENT_TYPES: Final = {
    Format.JSON: b"application/json",
    Format.CSV: b"text/csv",
    Format.AVRO: b"avro/binary",
}


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


AVRO_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "record",
    "name": "UserEvent",
    "namespace": "tidemark.samples",
    "fields": [
        {"name": "user_id", "type": "string"},
        _optional("event_type", "string"),
        _optional("amount", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        _optional("cob", {"type": "int", "logicalType": "date"}),
        _optional("event_time", {"type": "long", "logicalType": "timestamp-micros"}),
    ],
}
"""Equal to `conf/schemas/user-events.avsc`; a test compares the two."""


@dataclass(frozen=True)
class UserEvent:
    user_id: str
    event_type: str
    amount: Decimal
    event_time: datetime


@dataclass(frozen=True)
class SampleEvent:
    """A record with its expected outcome: `fault` is the code of its rejection, None if it must land.

    A record without a value is a tombstone.
    """

    record: SampleRecord
    format: Format
    fault: FailureCode | None


def sample_events(
    count: int,
    *,
    formats: Sequence[Format] = tuple(Format),
    bad_share: float = 0.01,
    tombstone_share: float = 0.001,
    faults: Sequence[FailureCode] | None = None,
    seed: int = 0,
    every: timedelta = timedelta(milliseconds=10),
) -> Iterator[SampleEvent]:
    """`count` events, by default one every 10 ms from 2024-01-15 on, the formats in turn.

    `bad_share` of them are bad, spread evenly over `faults` (by default all that the event's format can
    have); the first bad ones are one of each kind.
    """
    chosen = random.Random(seed)
    turn = dict.fromkeys(formats, 0)
    for number in range(count):
        fmt = formats[number % len(formats)]
        event = UserEvent(
            user_id=f"u{chosen.randrange(10_000)}",
            event_type=chosen.choice(EVENT_TYPES),
            amount=Decimal(chosen.randrange(0, 100_000)).scaleb(-2),
            event_time=START + number * every + timedelta(microseconds=chosen.randrange(10_000)),
        )
        lot = chosen.random()
        fault: FailureCode | None = None
        value: bytes | None
        if lot < tombstone_share:
            value = None
        elif lot < tombstone_share + bad_share and (kinds := _kinds(fmt, faults)):
            fault = kinds[turn[fmt] % len(kinds)]
            turn[fmt] += 1
            value = SPOILED[fmt][fault](event)
        else:
            value = ENCODED[fmt](event)
        yield SampleEvent(
            SampleRecord(
                value,
                key=event.user_id.encode(),
                headers=(("content-type", CONTENT_TYPES[fmt]),),
                timestamp_ms=int(event.event_time.timestamp() * 1000),
            ),
            fmt,
            fault,
        )


def encode_json(event: UserEvent) -> bytes:
    return json.dumps(_json_fields(event), separators=(",", ":")).encode()


def encode_csv(event: UserEvent) -> bytes:
    return ",".join(_csv_fields(event)).encode()


def encode_avro(event: UserEvent) -> bytes:
    """Plain Avro, without a container or a registry's frame."""
    out = io.BytesIO()
    row = {
        "user_id": event.user_id,
        "event_type": event.event_type,
        "amount": event.amount,
        "cob": event.event_time.date(),
        "event_time": event.event_time,
    }
    fastavro.schemaless_writer(out, _avro_schema(), row)
    return out.getvalue()


@cache
def _avro_schema() -> Any:
    return fastavro.parse_schema(dict(AVRO_SCHEMA))


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _json_fields(event: UserEvent) -> dict[str, Any]:
    return {
        "user_id": event.user_id,
        "event_type": event.event_type,
        "amount": float(event.amount),
        "cob": event.event_time.date().isoformat(),
        "event_time": _iso(event.event_time),
    }


def _csv_fields(event: UserEvent) -> list[str]:
    cob = event.event_time.date().isoformat()
    return [event.user_id, event.event_type, f"{event.amount:.2f}", cob, _iso(event.event_time)]


def _json_with(**changes: Any) -> Callable[[UserEvent], bytes]:
    return lambda event: json.dumps({**_json_fields(event), **changes}).encode()


def _json_without(field: str) -> Callable[[UserEvent], bytes]:
    return lambda event: json.dumps({k: v for k, v in _json_fields(event).items() if k != field}).encode()


def _csv_with(position: int, text: str) -> Callable[[UserEvent], bytes]:
    def spoil(event: UserEvent) -> bytes:
        fields = _csv_fields(event)
        fields[position] = text
        return ",".join(fields).encode()

    return spoil


def _avro_with_amount(amount: Decimal) -> Callable[[UserEvent], bytes]:
    return lambda e: encode_avro(UserEvent(e.user_id, e.event_type, amount, e.event_time))


def _kinds(fmt: Format, faults: Sequence[FailureCode] | None) -> list[FailureCode]:
    return [code for code in SPOILED[fmt] if faults is None or code in faults]


ENCODED: Final[Mapping[Format, Callable[[UserEvent], bytes]]] = {
    Format.JSON: encode_json,
    Format.CSV: encode_csv,
    Format.AVRO: encode_avro,
}

SPOILED: Final[Mapping[Format, Mapping[FailureCode, Callable[[UserEvent], bytes]]]] = {
    Format.JSON: {
        FailureCode.EMPTY_PAYLOAD: lambda _: b"",
        FailureCode.NOT_AN_OBJECT: lambda e: b"[" + encode_json(e) + b"]",
        FailureCode.MALFORMED_JSON: lambda e: encode_json(e)[:-9],
        FailureCode.DUPLICATE_KEY: lambda e: encode_json(e)[:-1] + b',"amount":0}',
        FailureCode.TRAILING_DATA: lambda e: encode_json(e) + encode_json(e),
        FailureCode.INVALID_UTF8: lambda e: encode_json(e).replace(b'"u', b'"\x81u', 1),
        FailureCode.TYPE_MISMATCH: _json_with(amount="many"),
        FailureCode.DECIMAL_PRECISION: _json_with(amount=12.345),
        FailureCode.TIMESTAMP_UNPARSABLE: _json_with(event_time="yesterday"),
        FailureCode.TIMESTAMP_OUT_OF_RANGE: _json_with(event_time="12024-01-15T00:00:00Z"),
        FailureCode.REQUIRED_FIELD: _json_without("user_id"),
        FailureCode.RULE_VIOLATED: _json_with(amount=-1),
    },
    Format.CSV: {
        FailureCode.EMPTY_PAYLOAD: lambda _: b"   ",
        FailureCode.COLUMN_COUNT: lambda e: encode_csv(e) + b",extra",
        FailureCode.MALFORMED_CSV: lambda e: b'"' + encode_csv(e),
        FailureCode.TYPE_MISMATCH: _csv_with(2, "many"),
        FailureCode.DECIMAL_PRECISION: _csv_with(2, "12.345"),
        FailureCode.TIMESTAMP_UNPARSABLE: _csv_with(4, "yesterday"),
        FailureCode.REQUIRED_FIELD: _csv_with(0, ""),
        FailureCode.RULE_VIOLATED: _csv_with(2, "-1.00"),
    },
    Format.AVRO: {
        FailureCode.MALFORMED_AVRO: lambda e: encode_avro(e)[:-3],
        FailureCode.RULE_VIOLATED: _avro_with_amount(Decimal("-1.00")),
    },
}
"""For each format and code: the bytes of an event that must be rejected with it. RULE_VIOLATED needs the rule
`amount >= 0`."""
