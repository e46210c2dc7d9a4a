"""How a loop by hand decodes JSON with types, strictly: many payloads at once by Arrow's reader, or one at a time.

Strict: a wrong kind, an unknown or repeated key, a required field that is absent, a number that would be rounded
or does not fit, and bytes that are no UTF-8 are faults, and the record is bad. The ten fields are those of `samples`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

SCHEMA = pa.schema(
    [
        pa.field("user_id", pa.string(), nullable=False),
        ("event_type", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("quantity", pa.int32()),
        ("occurred_at", pa.timestamp("us", "UTC")),
        ("cob", pa.date32()),
        ("price", pa.float64()),
        ("active", pa.bool_()),
        ("note", pa.string()),
        ("session", pa.int64()),
    ]
)
BLOCK = 500
"""Payloads that Arrow's reader gets at once. One that is bad makes it refuse all, so they are halved."""
FEW = 8

# Arrow's reader knows no dates.
_READ = SCHEMA.set(SCHEMA.get_field_index("cob"), pa.field("cob", pa.string()))
_PARSING = pj.ParseOptions(explicit_schema=_READ, unexpected_field_behavior="error")
_READING = pj.ReadOptions(use_threads=False, block_size=64 * 1024 * 1024)

Bad = tuple[int, str]
"""The place of a bad payload, and why it is bad."""


def by_block(payloads: list[bytes | None]) -> tuple[pa.Table, list[Bad]]:
    """The rows of the good payloads in their order, and the bad ones."""
    tables: list[pa.Table] = []
    bad: list[Bad] = []
    for start in range(0, len(payloads), BLOCK):
        _halved(payloads, start, min(start + BLOCK, len(payloads)), tables, bad)
    return pa.concat_tables(tables or [SCHEMA.empty_table()]), bad


def by_record(payloads: list[bytes | None], start: int = 0) -> tuple[pa.Table, list[Bad]]:
    """The same, one by one. `start` is the place of the first payload."""
    rows: list[list[Any]] = []
    bad: list[Bad] = []
    for place, payload in enumerate(payloads, start):
        try:
            rows.append(_row(payload))
        except (ValueError, ArithmeticError) as fault:
            bad.append((place, str(fault)))
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA), bad


def _halved(
    payloads: list[bytes | None], start: int, end: int, tables: list[pa.Table], bad: list[Bad]
) -> None:
    table = None
    if end - start > FEW:
        table = _table(payloads[start:end])
        if table is None:
            middle = (start + end) // 2
            _halved(payloads, start, middle, tables, bad)
            _halved(payloads, middle, end, tables, bad)
            return
    if table is None:
        table, found = by_record(payloads[start:end], start)
        bad += found
    tables.append(table)


def _table(payloads: list[bytes | None]) -> pa.Table | None:
    """None where one payload, at least, is not what the schema says or may not be.

    Each payload has a brace at either end, so each is one document if there are as many rows as payloads.
    """
    if not all(p and p[0] == 0x7B and p[-1] == 0x7D for p in payloads):
        return None
    text = pa.BufferReader(b"\n".join(payloads))
    try:
        table = pj.read_json(text, read_options=_READING, parse_options=_PARSING)
        if table.num_rows != len(payloads) or table["user_id"].null_count:
            return None
        if not pc.all(pc.is_finite(table["price"]), min_count=0).as_py():
            return None
        table = table.cast(SCHEMA)
        # The decimals' digits, and whether text is UTF-8.
        table.validate(full=True)
    except pa.ArrowException:
        return None
    return table


def _row(payload: bytes | None) -> list[Any]:
    """Raises ValueError with the reason."""
    if payload is None:
        raise ValueError("no payload")
    found = _parsed(payload.decode())
    if not isinstance(found, dict):
        raise ValueError("not an object")
    if found.get("user_id") is None:
        raise ValueError("user_id is required")
    row = []
    for name, read in _READERS.items():
        value = found.pop(name, None)
        try:
            row.append(None if value is None else read(value))
        except (ValueError, ArithmeticError) as fault:
            raise ValueError(f"{name}: {fault}") from None
    if found:
        raise ValueError(f"unknown fields: {', '.join(found)}")
    return row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is there twice")
    return members


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_parsed = json.JSONDecoder(object_pairs_hook=_once, parse_float=Decimal, parse_constant=_refused).decode


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("not a text")
    value.encode()  # half a surrogate pair, written as an escape
    return value


def _whole(bits: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if type(value) is not int:
            raise ValueError("not a whole number")
        if not -(1 << bits) <= value < 1 << bits:
            raise ValueError("out of range")
        return value

    return read


def _number(value: Any) -> Decimal:
    if type(value) is Decimal:
        return value
    if type(value) is int:
        return Decimal(value)
    raise ValueError("not a number")


def _double(value: Any) -> float:
    found = float(_number(value))
    if math.isinf(found):
        raise ValueError("out of range")
    return found


_HUNDREDTH, _MOST = Decimal("0.01"), Decimal(10**8)


def _amount(value: Any) -> Decimal:
    number = Decimal(value) if type(value) is str else _number(value)
    if not number.is_finite() or abs(number) >= _MOST:
        raise ValueError("more digits than the column holds")
    rounded = number.quantize(_HUNDREDTH)
    if rounded != number:
        raise ValueError("more digits than the column holds")
    return rounded


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(_text(value))
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("neither true nor false")
    return value


_READERS: dict[str, Callable[[Any], Any]] = {
    "user_id": _text,
    "event_type": _text,
    "amount": _amount,
    "quantity": _whole(31),
    "occurred_at": _moment,
    "cob": lambda value: date.fromisoformat(_text(value)),
    "price": _double,
    "active": _boolean,
    "note": _text,
    "session": _whole(63),
}
