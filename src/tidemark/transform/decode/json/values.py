"""Values of a parsed JSON document to the types of their columns, with the faults in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.outcome import Faults, Path
from tidemark.transform.decode.scalar import (
    CSV_NUMBER,
    binary,
    datetime_value,
    default_of,
    epoch,
    number,
)
from tidemark.transform.fields import FLOATS, INTEGERS, Field, Shape

Convert = Callable[[Any, Faults, Path], Any]
"""The value of what was found, which is not null. None where it has a fault, which it adds."""
_ABSENT = object()
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(32)} | _SHORT
_ESCAPED = re.compile('[\x00-\x1f"\\\\\U00010000-\U0010ffff]')
"""As Spark writes JSON: a character beyond the first plane as its two surrogates."""


class Number(str):
    """A number's own text."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object that names a key more than once: the last value of each, where it came. `pairs` has all."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        for key, value in pairs:
            self.pop(key, None)
            self[key] = value
        self.pairs = pairs


def text_of(found: Any) -> str:
    """What a STRING column holds of any value but null: a number's own text, a container as JSON."""
    return str(found) if isinstance(found, str) else _written(found)


def shown(found: Any) -> str:
    """As `text_of`, but a string in quotes: `"1"` is not `1`."""
    return f'"{found}"' if isinstance(found, str) and not isinstance(found, Number) else text_of(found)


def _written(found: Any) -> str:
    if isinstance(found, str):
        if isinstance(found, Number):
            return str(found)
        return '"' + _ESCAPED.sub(_escape, found) + '"'
    if isinstance(found, dict):
        pairs = found.pairs if isinstance(found, Repeated) else found.items()
        return "{" + ",".join([f"{_written(key)}:{_written(each)}" for key, each in pairs]) + "}"
    if isinstance(found, list):
        return "[" + ",".join([_written(each) for each in found]) + "]"
    return {None: "null", True: "true", False: "false"}[found]


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _ESCAPES:
        return _ESCAPES[character]
    high, low = divmod(ord(character) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def values_of(fields: tuple[Field, ...]) -> Convert:
    """Of an object with these fields: a dict by column names."""
    members = [_member(f) for f in fields]

    def convert(found: Any, faults: Faults, path: Path) -> Any:
        row = {}
        for name, inner, column, value_of, missing, default in members:
            value = found.get(name, _ABSENT)
            if value is None or value is _ABSENT:
                if value is _ABSENT and default is not None:
                    row[column] = default
                    continue
                row[column] = None
                if missing is not None:
                    faults.add(Code.REQUIRED_FIELD, name if path is None else (path, inner), missing)
            else:
                row[column] = value_of(value, faults, name if path is None else (path, inner))
        return row

    return convert


def _member(field: Field) -> tuple[str, str, str, Convert, str | None, Any]:
    missing = f"{field.shape.expected} NOT NULL" if field.required else None
    return field.name, f".{field.name}", field.column, _value_of(field.shape), missing, default_of(field)


def _value_of(shape: Shape) -> Convert:
    if shape.fields:
        return _checked(shape, dict, values_of(shape.fields))
    if isinstance(shape.data_type, T.ArrayType):
        return _checked(shape, list, _elements_of(shape))
    if isinstance(shape.data_type, T.MapType):
        return _checked(shape, dict, _entries_of(shape))
    read, expected, hides = _scalar(shape), shape.expected, shape.hides

    def convert(found: Any, faults: Faults, path: Path) -> Any:
        value = read(found)
        if type(value) is Code:
            faults.add(value, path, expected, None if hides else lambda: shown(found))
            return None
        return value

    return convert


def _checked(shape: Shape, kind: type, inner: Convert) -> Convert:
    expected, hides = shape.expected, shape.hides

    def convert(found: Any, faults: Faults, path: Path) -> Any:
        if isinstance(found, kind):
            return inner(found, faults, path)
        faults.add(Code.TYPE_MISMATCH, path, expected, None if hides else lambda: shown(found))
        return None

    return convert


def _elements_of(shape: Shape) -> Convert:
    element_of = _element_of(shape)

    def convert(found: Any, faults: Faults, path: Path) -> Any:
        values = []
        for at, each in enumerate(found):
            value = element_of(each, faults, (path, at))
            # There is no row with a fault in it, and a record of a megabyte may hold many.
            if faults.code is None:
                values.append(value)
        return values

    return convert


def _entries_of(shape: Shape) -> Convert:
    element_of = _element_of(shape)
    return lambda found, faults, path: {
        key: element_of(each, faults, (path, shape.place_of(key))) for key, each in found.items()
    }


def _element_of(shape: Shape) -> Convert:
    """Of an array's element or a map's value, which may be null."""
    element = shape.element
    assert element is not None
    value_of, missing = _value_of(element), None if element.nullable else f"{element.expected} NOT NULL"

    def convert(found: Any, faults: Faults, path: Path) -> Any:
        if found is not None:
            return value_of(found, faults, path)
        if missing is not None:
            faults.add(Code.REQUIRED_FIELD, path, missing)
        return None

    return convert


def _scalar(shape: Shape) -> Callable[[Any], Any]:
    kind, unit = shape.data_type, shape.epoch
    if isinstance(kind, T.StringType):
        return lambda found: found if type(found) is str else text_of(found)
    if isinstance(kind, T.BooleanType):
        return lambda found: found if isinstance(found, bool) else Code.TYPE_MISMATCH
    if isinstance(kind, T.BinaryType):
        return lambda found: binary(found) if type(found) is str else Code.TYPE_MISMATCH
    if isinstance(kind, (*INTEGERS, *FLOATS)):
        return lambda found: number(found, kind) if type(found) is Number else Code.TYPE_MISMATCH
    if isinstance(kind, T.DecimalType):
        # In quotes, by the grammar of CSV, since what a JSON number loses in a double is often sent as text.
        return lambda found: (
            number(found, kind)
            if isinstance(found, str) and (type(found) is Number or CSV_NUMBER.fullmatch(found))
            else Code.TYPE_MISMATCH
        )

    def moment(found: Any) -> Any:
        if type(found) is str:
            return datetime_value(found, kind)
        return epoch(found, unit) if unit and type(found) is Number else Code.TYPE_MISMATCH

    return moment
