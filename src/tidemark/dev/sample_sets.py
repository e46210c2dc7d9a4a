"""Three sets of realistic records, each with its expected outcome.

Clickstream (JSON), trades (CSV, decimals, COB dates) and telemetry (framed Avro of two schema versions).
The streams and schemas are in `fixtures/sets/<name>/`; `python -m tidemark.dev.sample_sets` writes the
records there again. The expected rows are computed here, without Spark.
"""

from __future__ import annotations

import base64
import io
import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import fastavro

from tidemark.contract.failure_codes import FailureCode
from tidemark.dev.producers import SampleRecord

START: Final = datetime(2024, 3, 4, 8, tzinfo=UTC)
IN_FIXTURES: Final = 60
METRICS: Final = {1: ("TEMPERATURE", "PRESSURE"), 2: ("TEMPERATURE", "PRESSURE", "HUMIDITY")}
"""The metrics of each schema version."""
_FOLDER: Final = "sets"
_BAD_EVERY: Final = 10
_TRADE_FIELDS: Final = (
    *("trade_id", "isin", "side", "quantity", "price", "currency"),
    *("cob", "executed_at", "note"),
)


@dataclass(frozen=True)
class Expected:
    """A record and its expected outcome. `row`: the decoded columns as JSON values, None unless it must land."""

    record: SampleRecord
    code: FailureCode | None
    row: dict[str, Any] | None


def clickstream(count: int, *, seed: int = 0) -> Iterator[Expected]:
    """Page views; every tenth is bad, for one reason after the other."""
    lot = random.Random(seed)
    for number in range(count):
        at = START + timedelta(seconds=number)
        event: dict[str, Any] = {
            "event_id": f"e{number:06d}",
            "session": f"s{lot.randrange(500)}",
            "url": f"https://shop.example/item/{lot.randrange(90)}?q=d%C3%A9cor",
            "referrer": lot.choice([None, "https://search.example/", "https://mail.example/ü"]),
            "seen_at": round(at.timestamp() * 1000),
            "viewport": {"width": lot.choice([375, 1280]), "height": lot.choice([667, 800])},
            "tags": lot.sample(["sale", "new", "“quoted”"], lot.randrange(3)),
        }
        if number % 7 == 0:
            event["experiment"] = "blue-button"
        spoiled = _CLICK_FAULTS[number // _BAD_EVERY % len(_CLICK_FAULTS)] if _is_bad(number) else None
        if spoiled is None:
            row = {**event, "seen_at": _text(at), "_extra": {}}
            if "experiment" in row:
                row["_extra"] = {"experiment": row.pop("experiment")}
            yield _expected(json.dumps(event, ensure_ascii=False).encode(), event["session"], at, row=row)
        else:
            yield _expected(spoiled[1](event), event["session"], at, code=spoiled[0])


def trades(count: int, *, seed: int = 0) -> Iterator[Expected]:
    """Trades; every tenth is bad, for one reason after the other."""
    lot = random.Random(seed)
    for number in range(count):
        at = START + timedelta(minutes=number)
        fields = [
            f"T{number:07d}",
            lot.choice(["DE000A1EWWW0", "US0378331005", "GB0002634946"]),
            lot.choice("BS"),
            f"{Decimal(lot.randrange(1, 10**9)).scaleb(-4)}",
            f"{Decimal(lot.randrange(1, 10**10)).scaleb(-6):f}",
            lot.choice(["EUR", "USD", "GBP"]),
            at.date().isoformat(),
            _text(at),
            lot.choice(["", '"block; two fills"', "roll"]),
        ]
        spoiled = _TRADE_FAULTS[number // _BAD_EVERY % len(_TRADE_FAULTS)] if _is_bad(number) else None
        if spoiled is None:
            row: dict[str, Any] = dict(zip(_TRADE_FIELDS, fields, strict=True))
            row["quantity"] = f"{Decimal(fields[3]):.4f}"
            row["price"] = f"{Decimal(fields[4]):.6f}"
            row["note"] = fields[8].strip('"') or None
            yield _expected(";".join(fields).encode(), fields[1], at, row=row)
        else:
            yield _expected(";".join(spoiled[1](fields)).encode(), fields[1], at, code=spoiled[0])


def telemetry(count: int, *, seed: int = 0) -> Iterator[Expected]:
    """Readings of two schema versions; every tenth is bad, for one reason after the other."""
    lot = random.Random(seed)
    for number in range(count):
        at = START + timedelta(seconds=number)
        version = 1 + number % 2
        reading: dict[str, Any] = {
            "device": f"d{lot.randrange(40):02d}",
            "metric": lot.choice(["TEMPERATURE", "PRESSURE"] if version == 1 else ["HUMIDITY", "PRESSURE"]),
            "value": round(lot.uniform(0, 900), 3),
            "at": at,
        }
        if version == 2:
            reading |= {"unit": "SI", "site": lot.choice([None, {"hall": "A", "slot": lot.randrange(9)}])}
        spoiled = _READING_FAULTS[number // _BAD_EVERY % len(_READING_FAULTS)] if _is_bad(number) else None
        if spoiled is None:
            row = {"unit": "SI", "site": None, **reading, "at": _text(at)}
            yield _expected(_framed(version, reading), reading["device"], at, row=row)
        else:
            yield _expected(spoiled[1](version, reading), reading["device"], at, code=spoiled[0])


SETS: Final[dict[str, Callable[..., Iterator[Expected]]]] = {
    "clickstream": clickstream,
    "trades": trades,
    "telemetry": telemetry,
}


def as_line(expected: Expected) -> str:
    """A line of a fixture file: the record in base64, and its expected outcome."""
    record = expected.record
    return json.dumps(
        {
            "key_b64": base64.b64encode(record.key or b"").decode(),
            "value_b64": None if record.value is None else base64.b64encode(record.value).decode(),
            "timestamp_ms": record.timestamp_ms,
            "expect": {
                "route": "accepted" if expected.code is None else "rejected",
                "code": expected.code and expected.code.value,
                "row": expected.row,
            },
        },
        ensure_ascii=False,
    )


def write(fixtures: Path) -> None:
    """Writes `sets/<name>/records.jsonl` of every set under the folder of fixtures."""
    for name, made in SETS.items():
        lines = "".join(f"{as_line(expected)}\n" for expected in made(IN_FIXTURES))
        (fixtures / _FOLDER / name / "records.jsonl").write_text(lines, encoding="utf-8")


def _is_bad(number: int) -> bool:
    return number % _BAD_EVERY == _BAD_EVERY - 1


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _expected(
    value: bytes,
    key: str,
    at: datetime,
    *,
    code: FailureCode | None = None,
    row: dict[str, Any] | None = None,
) -> Expected:
    record = SampleRecord(value, key=key.encode(), timestamp_ms=round(at.timestamp() * 1000))
    return Expected(record, code, row)


def _with(event: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps({**event, **changes}, ensure_ascii=False).encode()


_CLICK_FAULTS: Final[list[tuple[FailureCode, Callable[[dict[str, Any]], bytes]]]] = [
    (FailureCode.MALFORMED_JSON, lambda e: _with(e)[:-4]),
    (FailureCode.REQUIRED_FIELD, lambda e: _with(e, url=None)),
    (FailureCode.TYPE_MISMATCH, lambda e: _with(e, tags="sale")),
    (FailureCode.RULE_VIOLATED, lambda e: _with(e, url="ftp://shop.example/")),
    (FailureCode.DUPLICATE_KEY, lambda e: _with(e)[:-1] + b', "session": "s0"}'),
    (FailureCode.TRAILING_DATA, lambda e: _with(e) + b"}"),
]


def _changed(fields: list[str], position: int, text: str) -> list[str]:
    return [text if at == position else field for at, field in enumerate(fields)]


_TRADE_FAULTS: Final[list[tuple[FailureCode, Callable[[list[str]], list[str]]]]] = [
    (FailureCode.COLUMN_COUNT, lambda f: f[:-1]),
    (FailureCode.TYPE_MISMATCH, lambda f: _changed(f, 4, "n/a")),
    (FailureCode.DECIMAL_PRECISION, lambda f: _changed(f, 3, "1.23456")),
    (FailureCode.RULE_VIOLATED, lambda f: _changed(f, 2, "X")),
    (FailureCode.REQUIRED_FIELD, lambda f: _changed(f, 0, "")),
    (FailureCode.RULE_VIOLATED, lambda f: _changed(f, 6, "2031-01-01")),
]


def _framed(version: int, reading: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _schema(version), reading)
    return b"\0" + version.to_bytes(4, "big") + out.getvalue()


@cache
def _schema(version: int) -> Any:
    fields: list[dict[str, Any]] = [
        {"name": "device", "type": "string"},
        {"name": "metric", "type": {"type": "enum", "name": "Metric", "symbols": list(METRICS[version])}},
        {"name": "value", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    if version == 2:
        hall, slot = {"name": "hall", "type": "string"}, {"name": "slot", "type": "int"}
        site = {"type": "record", "name": "Site", "fields": [hall, slot]}
        fields += [
            {"name": "unit", "type": "string", "default": "SI"},
            {"name": "site", "type": ["null", site], "default": None},
        ]
    record = {"type": "record", "name": "Reading", "namespace": "tidemark.samples", "fields": fields}
    return fastavro.parse_schema(record)


_READING_FAULTS: Final[list[tuple[FailureCode, Callable[[int, dict[str, Any]], bytes]]]] = [
    (FailureCode.MALFORMED_AVRO, lambda version, r: _framed(version, r)[:-5]),
    (FailureCode.UNKNOWN_SCHEMA_ID, lambda version, r: b"\0\0\0\0\x09" + _framed(version, r)[5:]),
    (FailureCode.RULE_VIOLATED, lambda _, r: _framed(1, {**r, "metric": "TEMPERATURE", "value": -300.0})),
    (FailureCode.MALFORMED_AVRO, lambda version, r: _framed(version, r) + b"\0"),
]


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "fixtures"))
