"""The records that are measured with: ten fields, in JSON, CSV or Avro."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro

from tidemark.dev.producers import SampleRecord

DDL = (
    "user_id STRING, event_type STRING, amount DECIMAL(10,2), quantity INT, occurred_at TIMESTAMP, cob DATE, "
    "price DOUBLE, active BOOLEAN, note STRING, session BIGINT"
)
FORMATS = ("JSON", "CSV", "AVRO")
FIRST_DAY = date(2024, 7, 1)
BASE_BYTES = 215
"""Size of a JSON record whose note is not padded."""
SCHEMA_ID, KEY_SCHEMA_ID = 1, 2


def _nullable(name: str, kind: object) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


_FIELDS = [
    {"name": "user_id", "type": "string"},
    _nullable("event_type", "string"),
    _nullable("amount", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
    _nullable("quantity", "int"),
    _nullable("occurred_at", {"type": "long", "logicalType": "timestamp-micros"}),
    _nullable("cob", {"type": "int", "logicalType": "date"}),
    _nullable("price", "double"),
    _nullable("active", "boolean"),
    _nullable("note", "string"),
    _nullable("session", "long"),
]
AVRO: dict[str, Any] = {"type": "record", "name": "Event", "fields": _FIELDS}
CHANGE: dict[str, Any] = {
    "type": "record",
    "name": "Change",
    "fields": [
        *[{"name": "session", "type": "long"} if f["name"] == "session" else f for f in _FIELDS],
        {"name": "__log_sequence_number", "type": "long"},
        {"name": "__deleted", "type": "string"},
    ],
}
"""What kafka2delta takes: the event as a change of a row, whose key is `session`."""
CHANGE_KEY: dict[str, Any] = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": "session", "type": "long"}],
}


@dataclass(frozen=True)
class Samples:
    """`size`: bytes of a record in JSON, about. `bad`: share of bad records. `days`: values of `cob`."""

    count: int
    size: int = BASE_BYTES
    bad: float = 0.001
    days: int = 1

    def of(self, form: str) -> Iterator[SampleRecord]:
        encode, lot = _ENCODERS[form], random.Random(0)
        padding = "." * max(0, self.size - BASE_BYTES)
        for n in range(self.count):
            body = encode(n, FIRST_DAY + timedelta(days=n % self.days), padding, bad=lot.random() < self.bad)
            yield SampleRecord(body, key=f"u-{n % 1000}".encode())

    def changes(self) -> Iterator[SampleRecord]:
        """In Confluent's framing, none of them bad, each a row of its own."""
        padding = "." * max(0, self.size - BASE_BYTES)
        schema, key_schema = fastavro.parse_schema(CHANGE), fastavro.parse_schema(CHANGE_KEY)
        for n in range(self.count):
            event = _event(n, FIRST_DAY + timedelta(days=n % self.days), padding)
            event |= {"__log_sequence_number": n, "__deleted": "false"}
            key = _framed(KEY_SCHEMA_ID, key_schema, {"session": event["session"]})
            yield SampleRecord(_framed(SCHEMA_ID, schema, event), key=key)


def _json(n: int, day: date, padding: str, *, bad: bool) -> bytes:
    text = (
        f'{{"user_id":"u-{n % 1000}","event_type":"click","amount":{n % 50}.25,"quantity":{n % 60},'
        f'"occurred_at":"2024-07-01T12:{n % 60:02d}:{n // 60 % 60:02d}.123Z","cob":"{day}",'
        f'"price":{n % 900}.5,"active":true,"note":"order number {n} of the day{padding}","session":{n * 7}}}'
    )
    return (text.replace('"quantity":', '"quantity":"many","was":') if bad else text).encode()


def _csv(n: int, day: date, padding: str, *, bad: bool) -> bytes:
    quantity = "many" if bad else n % 60
    return (
        f"u-{n % 1000},click,{n % 50}.25,{quantity},2024-07-01T12:{n % 60:02d}:{n // 60 % 60:02d}.123Z,"
        f"{day},{n % 900}.5,true,order number {n} of the day{padding},{n * 7}"
    ).encode()


def _avro(n: int, day: date, padding: str, *, bad: bool) -> bytes:
    body = _written(_PARSED, _event(n, day, padding))
    return body[: len(body) // 2] if bad else body


def _event(n: int, day: date, padding: str) -> dict[str, Any]:
    return {
        "user_id": f"u-{n % 1000}",
        "event_type": "click",
        "amount": Decimal(n % 50 * 100 + 25).scaleb(-2),
        "quantity": n % 60,
        "occurred_at": datetime(2024, 7, 1, 12, n % 60, n // 60 % 60, 123_000, tzinfo=UTC),
        "cob": day,
        "price": n % 900 + 0.5,
        "active": True,
        "note": f"order number {n} of the day{padding}",
        "session": n * 7,
    }


def _written(schema: Any, event: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, event)
    return buffer.getvalue()


def _framed(schema_id: int, schema: Any, event: dict[str, Any]) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + _written(schema, event)


_PARSED = fastavro.parse_schema(AVRO)
_ENCODERS: dict[str, Callable[..., bytes]] = {"JSON": _json, "CSV": _csv, "AVRO": _avro}
SCHEMAS = {SCHEMA_ID: json.dumps(CHANGE), KEY_SCHEMA_ID: json.dumps(CHANGE_KEY)}
