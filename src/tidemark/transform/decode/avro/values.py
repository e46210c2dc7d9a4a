"""A read Avro record to the row of the table, with the faults in it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.avro.bytes import NoDecimal, NoSymbol, NoText
from tidemark.transform.decode.detect import is_utf8
from tidemark.transform.decode.outcome import Faults, Path
from tidemark.transform.decode.scalar import (
    Value,
    datetime_value,
    day,
    default_of,
    epoch,
    local_moment,
    moment,
    number,
    single,
)
from tidemark.transform.fields import DATETIMES, FLOATS, INTEGERS, Field, Shape

Convert = Callable[[Any, Path, Faults], Any]
"""From a read value, its path and where faults go, to the column's value."""
Scalar = Callable[[Any], Value | Code]


def struct_of(
    seen: tuple[Field, ...], fields: tuple[Field, ...]
) -> Callable[[dict[str, Any], Path, Faults], dict[str, Any]]:
    """What makes the row of a record whose own fields are `seen`."""
    shapes = {f.name: f.shape for f in seen}
    columns = [
        (f, default_of(f), _value(shapes[f.name], f.shape) if f.name in shapes else None) for f in fields
    ]

    def row_of(record: dict[str, Any], path: Path, faults: Faults) -> dict[str, Any]:
        row = {}
        for field, default, convert in columns:
            here: Path = field.name if path is None else (path, f".{field.name}")
            value = default if convert is None else record.get(field.name)
            if value is None:
                if field.required:
                    faults.add(Code.REQUIRED_FIELD, here, f"{field.shape.expected} NOT NULL")
            elif convert is not None:
                value = convert(value, here, faults)
            row[field.column] = value
        return row

    return row_of


def _value(seen: Shape, shape: Shape) -> Convert:
    if shape.fields and seen.fields:
        return struct_of(seen.fields, shape.fields)
    kind, found = shape.data_type, seen.data_type
    if shape.element is not None and seen.element is not None and type(kind) is type(found):
        element = _element(seen.element, shape.element)
        if isinstance(kind, T.ArrayType):
            return lambda value, path, faults: [
                element(each, (path, at), faults) for at, each in enumerate(value)
            ]
        return lambda value, path, faults: {
            key: element(each, (path, shape.place_of(key)), faults) for key, each in value.items()
        }
    scalar = _scalar(seen, shape)

    def convert(value: Any, path: Path, faults: Faults) -> Any:
        typed = scalar(value)
        if isinstance(typed, Code):
            shown = None if shape.hides else lambda: text_of(value, seen)
            faults.add(typed, path, shape.expected, shown)
            return None
        return typed

    def doubtful(value: Any, path: Path, faults: Faults) -> Any:
        if isinstance(value, NoSymbol):
            shown = None if shape.hides else value.symbol
            faults.add(Code.TYPE_MISMATCH, path, f"one of {', '.join(value.known)}", shown)
        elif isinstance(value, NoDecimal):
            shown = None if shape.hides else text_of(value, seen)
            faults.add(Code.DECIMAL_PRECISION, path, shape.expected, shown)
        else:
            return convert(value, path, faults)
        return None

    return doubtful if isinstance(found, T.StringType | T.DecimalType) else convert


def _element(seen: Shape, shape: Shape) -> Convert:
    convert = _value(seen, shape)

    def element(value: Any, path: Path, faults: Faults) -> Any:
        if value is not None:
            return convert(value, path, faults)
        if not shape.nullable:
            faults.add(Code.REQUIRED_FIELD, path, f"{shape.expected} NOT NULL")
        return None

    return element


def _scalar(seen: Shape, shape: Shape) -> Scalar:
    kind, found = shape.data_type, seen.data_type
    if not (shape.is_scalar and seen.is_scalar):
        return lambda _: Code.TYPE_MISMATCH
    if seen.epoch is not None:
        return lambda value: moment(value * 1000)
    if isinstance(found, T.StringType):
        return _of_text(kind)
    if isinstance(found, T.DecimalType) and isinstance(kind, T.DecimalType):
        return lambda value: number(f"{value:f}", kind)
    if isinstance(kind, T.StringType) and not isinstance(found, (T.BinaryType, *DATETIMES)):
        return lambda value: text_of(value, seen)
    if isinstance(found, (*INTEGERS, T.DecimalType)) and isinstance(
        kind, (*INTEGERS, *FLOATS, T.DecimalType)
    ):
        if found == kind:
            return lambda value: value
        return lambda value: number(f"{value:f}" if isinstance(value, Decimal) else str(value), kind)
    if isinstance(found, FLOATS) and isinstance(kind, FLOATS):
        if isinstance(kind, T.FloatType):
            return single
        return lambda value: value if isfinite(value) else Code.NUMBER_OUT_OF_RANGE
    if isinstance(found, INTEGERS) and shape.epoch:
        unit = shape.epoch
        return lambda value: epoch(str(value), unit)
    if found != kind:
        return lambda _: Code.TYPE_MISMATCH
    if isinstance(kind, T.DateType):
        return day
    if isinstance(kind, DATETIMES):
        return moment if isinstance(kind, T.TimestampType) else local_moment
    return lambda value: value


def _of_text(kind: T.DataType) -> Scalar:
    """Of text, which is its bytes, or a symbol of an enum."""
    if isinstance(kind, T.StringType):

        def text(value: bytes | str) -> Value | Code:
            if isinstance(value, str):
                return value
            try:
                return value.decode()
            except UnicodeDecodeError:
                return Code.INVALID_UTF8

        return text
    if isinstance(kind, DATETIMES):
        return lambda value: datetime_value(_shown(value), kind)
    return lambda _: Code.TYPE_MISMATCH


def _shown(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def text_of(value: Any, seen: Shape) -> str:
    """A value as text: what a dead letter shows, and what an unknown field is kept as."""
    if isinstance(value, NoSymbol):
        return value.symbol
    if isinstance(value, NoDecimal):
        return f"{value.size} bytes"
    if not seen.is_scalar:
        return json.dumps(_plain(value, seen), ensure_ascii=False, separators=(",", ":"))
    return _scalar_text(value, seen.data_type)


def _scalar_text(value: Any, kind: T.DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(kind, T.StringType):
        return _shown(value)
    if isinstance(kind, T.BinaryType):
        return b64encode(value).decode()
    if isinstance(kind, FLOATS):
        return _java(value, kind)
    if isinstance(kind, T.DecimalType):
        return f"{value:f}"
    if isinstance(kind, T.DateType):
        days = day(value)
        return days.isoformat() if isinstance(days, date) else str(value)
    if isinstance(kind, DATETIMES):
        at = local_moment(value)
        if not isinstance(at, datetime):
            return str(value)
        fraction = f".{at:%f}".rstrip("0").rstrip(".")
        return f"{at:%Y-%m-%d %H:%M:%S}".rjust(19, "0") + fraction
    return str(value)


def _java(value: float, kind: T.DataType) -> str:
    """A float in the shortest digits, written as the JVM does."""
    if not isfinite(value):
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    shown = repr(value)
    if isinstance(kind, T.FloatType):
        shown = next(s for digits in range(1, 18) if single(float(s := f"{value:.{digits}g}")) == value)
    sign, digits, power = Decimal(shown).as_tuple()
    assert isinstance(power, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + power
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _plain(value: Any, seen: Shape) -> Any:
    """A value as JSON has it; a struct's NULLs are left out."""
    if value is None:
        return None
    if isinstance(value, NoSymbol | NoDecimal):
        return text_of(value, seen)
    if seen.fields:
        return {f.name: _plain(value[f.name], f.shape) for f in seen.fields if value.get(f.name) is not None}
    if seen.element is not None:
        element = seen.element
        if isinstance(value, dict):
            return {_shown(key): _plain(each, element) for key, each in value.items()}
        return [_plain(each, element) for each in value]
    kind = seen.data_type
    if isinstance(value, bool) or isinstance(kind, INTEGERS):
        return value
    if isinstance(kind, FLOATS) and isfinite(value):
        return value
    if isinstance(kind, T.DecimalType):
        return float(value)
    return _scalar_text(value, kind)


def has_no_text(value: Any, seen: Shape, *, keys_only: bool) -> bool:
    """Whether a value holds text that is not UTF-8: in keys of maps, which no column's own check sees,
    and everywhere in what is kept.
    """
    if isinstance(value, dict):
        shapes = {f.name: f.shape for f in seen.fields}
        return any(
            isinstance(key, NoText)
            or has_no_text(each, shapes.get(key) or _element_of(seen), keys_only=keys_only)
            for key, each in value.items()
        )
    if isinstance(value, list):
        return any(has_no_text(each, _element_of(seen), keys_only=keys_only) for each in value)
    if keys_only or not isinstance(seen.data_type, T.StringType) or not isinstance(value, bytes):
        return False
    return not is_utf8(value)


def _element_of(seen: Shape) -> Shape:
    assert seen.element is not None
    return seen.element
