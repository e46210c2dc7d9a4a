"""The strict lane of Avro: one record's bytes to values, to the last byte, and where they break.

Every type is read by a function of its own, made once a schema. A length or a count that the record's
bytes cannot hold is refused before anything is made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from tidemark.transform.decode.avro.defaults import encoded
from tidemark.transform.decode.avro.schema import Node

Read = Callable[[bytes, int], tuple[Any, int]]
"""From the bytes and where a value begins, to the value and where it ends."""

DECIMAL_DIGITS = 38
EMPTY_ITEMS = 100_000
"""Most items of no bytes at all that an array or a map may have."""
_LONG, _INT = (1 << 64) - 1, (1 << 32) - 1


class Malformed(ValueError):
    """The bytes are not of the writer's schema. `at` is where."""

    def __init__(self, at: int, path: str, why: str) -> None:
        super().__init__(why)
        self.at, self.path, self.why = at, path, why


class NoSymbol(NamedTuple):
    """A symbol of an enum that the reader's schema does not have."""

    symbol: str
    known: tuple[str, ...]


class NoDecimal(NamedTuple):
    """Bytes that are not a decimal of its type's digits, by their number."""

    size: int


class NoText(bytes):
    """A map's key that is not UTF-8."""


def reader_of(node: Node, made: dict[int, Read] | None = None) -> Read:
    """What reads the node. Text comes as bytes, a decimal as Decimal, a date and a time as numbers."""
    made = {} if made is None else made
    if id(node) in made:
        return made[id(node)]
    # A type that contains itself: what is not made yet is looked up when it is needed.
    made[id(node)] = lambda data, at: made[id(node)](data, at)
    read = _finished(node, _PLAIN[node.kind](node, made))
    made[id(node)] = read
    return read


def _finished(node: Node, read: Read) -> Read:
    """The value as the reader's type has it."""
    kind, member = node.target, node.member
    if kind.logical == "decimal" and kind.kind in ("bytes", "fixed"):
        read = _changed(read, _decimal_of(kind.precision, kind.scale))
    elif kind.logical in ("timestamp-millis", "local-timestamp-millis"):
        read = _changed(read, lambda value: value * 1000)
    elif node.kind in ("int", "long") and kind.kind in ("float", "double"):
        read = _changed(read, _to_single if kind.kind == "float" else float)
    return read if member is None else _changed(read, lambda value: {member: value})


def _changed(read: Read, change: Callable[[Any], Any]) -> Read:
    def changed(data: bytes, at: int) -> tuple[Any, int]:
        value, end = read(data, at)
        return change(value), end

    return changed


def _to_single(value: int) -> float:
    """The nearest float of 32 bits; through a double it would be rounded twice."""
    sign, size = (-1, -value) if value < 0 else (1, value)
    surplus = max(0, size.bit_length() - 24)
    low, high = size & ((1 << surplus) - 1), size >> surplus
    half = 1 << surplus >> 1
    high += surplus > 0 and (low > half or (low == half and high & 1))
    return float(sign * (high << surplus))


def _decimal_of(precision: int, scale: int) -> Callable[[bytes], Decimal | NoDecimal]:
    bound = 10 ** min(precision, DECIMAL_DIGITS)

    def decimal(value: bytes) -> Decimal | NoDecimal:
        number = int.from_bytes(value, "big", signed=True)
        if not value or abs(number) >= bound:
            return NoDecimal(len(value))
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return decimal


def number_at(data: bytes, at: int, path: str, most: int = 10) -> tuple[int, int]:
    """An int, in up to 5 bytes, or a long. Bits beyond those of its type are dropped."""
    value, start = 0, at
    try:
        while True:
            byte = data[at]
            value |= (byte & 0x7F) << 7 * (at - start)
            at += 1
            if byte < 0x80:
                value &= _LONG if most > 5 else _INT
                return (value >> 1) ^ -(value & 1), at
            if at - start == most:
                raise Malformed(start, path, f"a number of more than {most} bytes")
    except IndexError:
        raise Malformed(len(data), path, "the record ends within a number") from None


def _null(node: Node, made: dict[int, Read]) -> Read:
    return lambda data, at: (None, at)


def _boolean(node: Node, made: dict[int, Read]) -> Read:
    def boolean(data: bytes, at: int) -> tuple[bool, int]:
        if at >= len(data):
            raise Malformed(at, node.path, "the record ends before a boolean")
        return data[at] == 1, at + 1

    return boolean


def _number(node: Node, made: dict[int, Read]) -> Read:
    path, most = node.path, 5 if node.kind == "int" else 10
    return lambda data, at: number_at(data, at, path, most)


def _floating(node: Node, made: dict[int, Read]) -> Read:
    form = struct.Struct("<f" if node.kind == "float" else "<d")

    def floating(data: bytes, at: int) -> tuple[float, int]:
        try:
            return form.unpack_from(data, at)[0], at + form.size
        except struct.error:
            raise Malformed(at, node.path, f"{form.size} bytes, {len(data) - at} are left") from None

    return floating


def _cut(data: bytes, at: int, size: int, path: str) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - at:
        raise Malformed(at, path, f"{size} bytes, {len(data) - at} are left")
    return data[at : at + size], at + size


def _bytes(node: Node, made: dict[int, Read]) -> Read:
    path = node.path

    def counted(data: bytes, at: int) -> tuple[bytes, int]:
        size, at = number_at(data, at, path)
        return _cut(data, at, size, path)

    return counted


def _fixed(node: Node, made: dict[int, Read]) -> Read:
    size, path = node.size, node.path
    return lambda data, at: _cut(data, at, size, path)


def _enum(node: Node, made: dict[int, Read]) -> Read:
    known = node.target.symbols
    symbols = [read if read is not None else NoSymbol(written, known) for written, read in node.symbols]

    def enum(data: bytes, at: int) -> tuple[Any, int]:
        index, end = number_at(data, at, node.path, 5)
        if not 0 <= index < len(symbols):
            raise Malformed(at, node.path, f"symbol {index} of {len(symbols)}")
        return symbols[index], end

    return enum


def _union(node: Node, made: dict[int, Read]) -> Read:
    branches = [reader_of(branch, made) for branch in node.inner]

    def union(data: bytes, at: int) -> tuple[Any, int]:
        index, end = number_at(data, at, node.path, 5)
        if not 0 <= index < len(branches):
            raise Malformed(at, node.path, f"branch {index} of {len(branches)}")
        return branches[index](data, end)

    return union


def _counts(node: Node, data: bytes, at: int) -> tuple[int, int]:
    """The items of the next block; its size in bytes is reported where a reader may skip it."""
    count, end = number_at(data, at, node.path)
    if count < 0:
        count = -count
        _, end = number_at(data, end, node.path)
    if count > max(len(data) - end, EMPTY_ITEMS):
        raise Malformed(at, node.path, f"{count} items, {len(data) - end} bytes are left")
    return count, end


def _array(node: Node, made: dict[int, Read]) -> Read:
    item = reader_of(node.inner[0], made)

    def array(data: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        count, at = _counts(node, data, at)
        while count:
            if len(items) + count > len(data) + EMPTY_ITEMS:
                raise Malformed(at, node.path, f"more than {len(data) + EMPTY_ITEMS} items")
            for _ in range(count):
                value, at = item(data, at)
                items.append(value)
            count, at = _counts(node, data, at)
        return items, at

    return array


def _map(node: Node, made: dict[int, Read]) -> Read:
    item, key_of = reader_of(node.inner[0], made), _bytes(node, made)

    def map_(data: bytes, at: int) -> tuple[dict[Any, Any], int]:
        items: dict[Any, Any] = {}
        count, at = _counts(node, data, at)
        while count:
            for _ in range(count):
                raw, at = key_of(data, at)
                try:
                    key: Any = raw.decode()
                except UnicodeDecodeError:
                    key = NoText(raw)
                items[key], at = item(data, at)
            count, at = _counts(node, data, at)
        return items, at

    return map_


def defaults_of(node: Node) -> dict[str, Any]:
    """The values of a record's fields that only the reader's schema has."""
    return {
        name: reader_of(each)(encoded(each.target, default), 0)[0] for name, each, default in node.missing
    }


def _record(node: Node, made: dict[int, Read]) -> Read:
    fields = [(name, reader_of(each, made)) for name, each in node.fields]
    defaults = defaults_of(node)

    def record(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        row = dict(defaults)
        for name, read in fields:
            value, at = read(data, at)
            if name is not None:
                row[name] = value
        return row, at

    return record


def _error(node: Node, made: dict[int, Read]) -> Read:
    def error(data: bytes, at: int) -> tuple[Any, int]:
        raise Malformed(at, node.path, node.why)

    return error


_PLAIN: dict[str, Callable[[Node, dict[int, Read]], Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _number,
    "long": _number,
    "float": _floating,
    "double": _floating,
    "bytes": _bytes,
    "string": _bytes,
    "fixed": _fixed,
    "enum": _enum,
    "union": _union,
    "array": _array,
    "map": _map,
    "record": _record,
    "error": _error,
}
