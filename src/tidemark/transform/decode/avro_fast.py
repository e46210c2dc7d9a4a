"""The fast lane of Avro: a batch of records read together, one field after another.

Where each record stands is a vector; a step reads one value of every record at its place and moves on.
Only a record whose last value ends where its bytes end is taken. What is rare stops it: then the strict
lane reads the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from tidemark.transform.decode.arrow_types import arrow_type, struct_type
from tidemark.transform.decode.avro_bytes import reader_of
from tidemark.transform.decode.avro_schema import Node
from tidemark.transform.decode.avro_strict import AvroReading
from tidemark.transform.decode.avro_values import struct_of
from tidemark.transform.decode.detection import valid_utf8
from tidemark.transform.decode.outcome import Faults
from tidemark.transform.decode.scalar_strict import (
    EPOCH_MICROS,
    FIRST_DAY,
    FIRST_MICROS,
    LAST_DAY,
    LAST_MICROS,
)
from tidemark.transform.fields import FLOATS, INTEGERS, Field, Shape

FEW = 48
"""Fewer records than this are decided sooner one by one."""
DENSE, LONGEST, ROUNDS = 32, 64, 2000
"""Items of arrays and maps are read one of each record at a time: where fewer records than `DENSE` have one
more, up to the item `LONGEST`, and `ROUNDS` times a batch.
"""
_FRONT, _REAR = 16, 32
_SEVENS = 0x7F7F7F7F7F7F7F7F
_STOPS = 0x8080808080808080

Lanes = Any
"""An array of the numbers of records, ascending."""
Step = Callable[["_Batch", Lanes], Any]
"""Reads a value of each of these records: an array of as many, or nothing where no column wants it."""


class _NoFastLane(Exception):
    """What the schemas ask for is for the strict lane."""


class _Batch:
    """The bytes of all records, and where each stands. One that ran over its end stays at `limit`."""

    def __init__(self, payloads: pa.BinaryArray, start: int) -> None:
        offsets = np.frombuffer(payloads.buffers()[1], np.int32)
        offsets = offsets[payloads.offset : payloads.offset + len(payloads) + 1].astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        self.data = np.zeros(_FRONT + last - first + _REAR, np.uint8)
        self.data[_FRONT : _FRONT + last - first] = np.frombuffer(payloads.buffers()[2] or b"", np.uint8)[
            first:last
        ]
        self.buffer = pa.py_buffer(self.data)
        self.words = self._view("<u8", 8)
        offsets += _FRONT - first
        self.limit = int(offsets[-1]) + 1
        self.ends = offsets[1:]
        self.at = np.minimum(offsets[:-1] + start, self.limit)
        self.right = np.ones(len(payloads), bool)
        self.rounds = ROUNDS

    def _view(self, kind: str, size: int) -> Any:
        """The bytes as numbers that begin at every byte."""
        return np.ndarray((len(self.data) - size + 1,), kind, self.data, strides=(1,))

    def fail(self, lanes: Lanes, wrong: Any) -> None:
        if wrong.any():
            self.right[lanes[wrong]] = False

    def number(self, lanes: Lanes, most: int = 10) -> Any:
        """The next int or long of each, in `most` bytes."""
        at = self.at[lanes]
        first = self.data[at]
        if first.max(initial=0) < 0x80:
            self.at[lanes] = np.minimum(at + 1, self.limit)
            value = first.astype(np.int64)
        else:
            word = self.words[at]
            stop = ~word & _STOPS
            stop &= ~stop + np.uint64(1)
            value = word & (stop | (stop - np.uint64(1))) & _SEVENS
            value = (value & 0x007F007F007F007F) | ((value & 0x7F007F007F007F00) >> 1)
            value = (value & 0x00003FFF00003FFF) | ((value & 0x3FFF00003FFF0000) >> 2)
            value = (value & 0x000000000FFFFFFF) | ((value & 0x0FFFFFFF00000000) >> 4)
            # The exponent of a power of two.
            length = (((stop.astype(np.float64).view(np.int64) >> 52) - 1023) >> 3) + 1
            long = stop == 0
            if long.any():
                ninth, tenth = (self.data[at[long] + n].astype(np.uint64) for n in (8, 9))
                more = ninth >= 0x80
                value[long] |= (ninth & 0x7F) << 56 | np.where(more, tenth << 63, 0)
                length[long] = 9 + more
                self.fail(lanes[long], more & (tenth >= 0x80))
            self.fail(lanes, length > most)
            self.at[lanes] = np.minimum(at + length, self.limit)
            value = value.view(np.int64)
        unsigned = value.view(np.uint64)
        return (unsigned >> 1).view(np.int64) ^ -(value & 1)

    def taken(self, lanes: Lanes, size: Any) -> tuple[Any, Any]:
        """Where the next `size` bytes of each begin and end, within the record's own bytes."""
        at = self.at[lanes]
        over = (size < 0) | (size > self.limit - at)
        self.at[lanes] = np.where(over, self.limit, at + size)
        ends = self.ends[lanes]
        return np.minimum(at, ends), np.minimum(np.where(over, at, at + size), ends)

    def fixed(self, lanes: Lanes, kind: str, size: int) -> Any:
        """The next number of `size` bytes of each."""
        at = self.at[lanes]
        self.at[lanes] = np.minimum(at + size, self.limit)
        return self._view(kind, size)[at]

    def texts(self, begins: Any, ends: Any) -> pa.BinaryArray:
        """The bytes in these places: every other one of those between all of the places."""
        offsets = np.empty(2 * len(begins) + 1, np.int32)
        offsets[:-1:2], offsets[1::2] = begins, ends
        offsets[-1] = ends[-1] if len(ends) else 0
        every = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * len(begins), [None, pa.py_buffer(offsets), self.buffer]
        )
        return every.take(pa.array(np.arange(0, 2 * len(begins), 2)))

    def goes_on(self, lanes: Lanes, item: int) -> bool:
        """Whether to read one more item of these, which pays for few only some times."""
        if len(lanes) >= DENSE or (item < LONGEST and self.rounds > 0):
            self.rounds -= len(lanes) < DENSE
            return True
        self.right[lanes] = False
        return False

    def between(self, lanes: Lanes, value: Any, low: int, high: int) -> None:
        self.fail(lanes, (value < low) | (value > high))


class AvroArrow:
    """Reads a batch of records of one writer's schema."""

    def __init__(self, reading: AvroReading) -> None:
        self._type = struct_type(reading.fields)
        self._step: Step | None
        try:
            if reading.surplus and reading.unknown_fields != "ignore":
                raise _NoFastLane
            self._step = _record(reading.node, reading.seen, reading.fields)
        except (_NoFastLane, RecursionError):  # A type that contains itself can only be read over.
            self._step = None
        self._unknown = len(reading.surplus)

    def read(self, payloads: pa.BinaryArray, start: int = 0) -> tuple[pa.StructArray, pa.BooleanArray, int]:
        """The rows, NULL where the payload was not taken, which were, and how many unknown fields each has.

        Records begin at `start`.
        """
        count = len(payloads)
        if self._step is None or count < FEW:
            return pa.nulls(count, self._type), pa.repeat(pa.scalar(value=False), count), 0
        batch = _Batch(payloads, start)
        rows = self._step(batch, np.arange(count))
        taken = batch.right & (batch.at == batch.ends)
        if not taken.all():
            rows = rows.take(pa.array(np.arange(count), mask=~taken))
        return rows, pa.array(taken), self._unknown


def _step(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    """What reads the node; without shapes, what reads over it."""
    wanted = seen is not None and shape is not None
    if node.kind == "union":
        return _union(node, seen, shape)
    if node.member is not None and seen is not None and shape is not None:
        return _of_member(node, seen, shape)
    if node.kind in ("array", "map"):
        return _items(node, seen, shape)
    if node.kind == "record":
        if not wanted:
            return _over([_step(each, None, None) for _, each in node.fields])
        assert seen is not None
        assert shape is not None
        if not (seen.fields and shape.fields):
            raise _NoFastLane
        return _record(node, seen.fields, shape.fields)
    if node.kind in ("error", "null"):
        raise _NoFastLane
    if node.kind in ("bytes", "string", "fixed"):
        return _text(node, seen, shape)
    if node.kind == "enum":
        return _enum(node, shape)
    return _number(node, seen, shape)


def _over(steps: list[Step]) -> Step:
    def over(batch: _Batch, lanes: Lanes) -> None:
        for step in steps:
            step(batch, lanes)

    return over


def _number(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    convert = None if seen is None or shape is None else _converted(node, seen, shape)

    def number(batch: _Batch, lanes: Lanes) -> Any:
        if node.kind in ("int", "long"):
            value = batch.number(lanes, 5 if node.kind == "int" else 10)
            if node.kind == "int":
                batch.between(lanes, value, -(1 << 31), (1 << 31) - 1)
        elif node.kind == "boolean":
            value = batch.fixed(lanes, "u1", 1) == 1
        else:
            value = batch.fixed(
                lanes, "<f4" if node.kind == "float" else "<f8", 4 if node.kind == "float" else 8
            )
        return None if convert is None else convert(batch, lanes, value)

    return number


def _converted(node: Node, seen: Shape, shape: Shape) -> Callable[[_Batch, Lanes, Any], pa.Array]:
    """From what the bytes say to the column's value, as `avro_values` has it."""
    kind, found, final = shape.data_type, seen.data_type, arrow_type(shape)
    if not (seen.is_scalar and shape.is_scalar):
        raise _NoFastLane
    target = {"float": np.float32, "double": np.float64}.get(node.target.kind)
    unit = "ms" if seen.epoch or "millis" in node.target.logical else "us"
    if isinstance(found, INTEGERS) and isinstance(kind, T.TimestampType) and (seen.epoch or shape.epoch):
        return _moments(seen.epoch or shape.epoch or "us", final)
    if isinstance(found, INTEGERS) and seen.epoch is None and isinstance(kind, INTEGERS):
        bits = final.bit_width - 1

        def whole(batch: _Batch, lanes: Lanes, value: Any) -> pa.Array:
            batch.between(lanes, value, -(1 << bits), (1 << bits) - 1)
            return pa.array(value.astype(final.to_pandas_dtype()))

        return whole
    if isinstance(found, (*INTEGERS, *FLOATS)) and seen.epoch is None and isinstance(kind, FLOATS):

        def floating(batch: _Batch, lanes: Lanes, value: Any) -> pa.Array:
            with np.errstate(over="ignore", invalid="ignore"):
                value = value if target is None else value.astype(target)
                value = value.astype(final.to_pandas_dtype())
            batch.fail(lanes, ~np.isfinite(value))
            return pa.array(value)

        return floating
    if isinstance(found, INTEGERS) and seen.epoch is None and isinstance(kind, T.StringType):
        return lambda batch, lanes, value: pa.array(value).cast(pa.string())
    if found != kind:
        raise _NoFastLane
    if isinstance(kind, T.BooleanType):
        return lambda batch, lanes, value: pa.array(value)
    if isinstance(kind, T.DateType):

        def days(batch: _Batch, lanes: Lanes, value: Any) -> pa.Array:
            batch.between(lanes, value, FIRST_DAY, LAST_DAY)
            return pa.array(value.astype(np.int32)).view(final)

        return days
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return _moments(unit, final)
    raise _NoFastLane


def _moments(unit: str, final: pa.DataType) -> Callable[[_Batch, Lanes, Any], pa.Array]:
    factor = EPOCH_MICROS[unit]
    first, last = -(-FIRST_MICROS // factor), LAST_MICROS // factor

    def moments(batch: _Batch, lanes: Lanes, value: Any) -> pa.Array:
        batch.between(lanes, value, first, last)
        return pa.array(value * factor).view(final)

    return moments


def _text(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    finish = None if seen is None or shape is None else _cut(node, seen, shape)

    def text(batch: _Batch, lanes: Lanes) -> Any:
        size = np.full(len(lanes), node.size) if node.kind == "fixed" else batch.number(lanes)
        begins, ends = batch.taken(lanes, size)
        return None if finish is None else finish(batch, lanes, begins, ends)

    return text


def _cut(node: Node, seen: Shape, shape: Shape) -> Callable[[_Batch, Lanes, Any, Any], pa.Array]:
    kind, found = shape.data_type, seen.data_type
    if isinstance(found, T.DecimalType) and isinstance(kind, T.DecimalType) and kind.scale >= found.scale:
        return _decimals(found, kind)
    if found != kind or not isinstance(kind, T.StringType | T.BinaryType):
        raise _NoFastLane

    def cut(batch: _Batch, lanes: Lanes, begins: Any, ends: Any) -> pa.Array:
        value = batch.texts(begins, ends)
        return value if isinstance(kind, T.BinaryType) else _as_text(batch, lanes, value)

    return cut


def _as_text(batch: _Batch, lanes: Lanes, value: pa.BinaryArray) -> pa.StringArray:
    right = valid_utf8(value)
    if right.false_count:
        wrong = ~right.to_numpy(zero_copy_only=False)
        batch.fail(lanes, wrong)
        value = value.take(pa.array(np.arange(len(value)), mask=wrong))
    return value.cast(pa.string())


def _decimals(found: T.DecimalType, kind: T.DecimalType) -> Callable[[_Batch, Lanes, Any, Any], pa.Array]:
    """Whole numbers of up to 16 bytes, the highest first, below the bound of both types."""
    bound = 10 ** min(found.precision, kind.precision - (kind.scale - found.scale))
    (top, rest), (bottom, least) = (divmod(n, 1 << 64) for n in (bound, 1 - bound))

    def decimals(batch: _Batch, lanes: Lanes, begins: Any, ends: Any) -> pa.Array:
        size = ends - begins
        wrong = (size < 1) | (size > 16)
        size = np.where(wrong, 1, size)
        low = batch.words[ends - 8].byteswap()
        high = batch.words[ends - 16].byteswap()
        short = np.maximum(0, 64 - 8 * size).astype(np.uint64)
        low = (low << short).view(np.int64) >> short.view(np.int64)
        long = np.minimum(56, 128 - 8 * size).clip(0).astype(np.uint64)
        high = np.where(size > 8, (high << long).view(np.int64) >> long.view(np.int64), low >> 63)
        unsigned = low.view(np.uint64)
        inside = (high < top) | ((high == top) & (unsigned < np.uint64(rest)))
        inside &= (high > bottom) | ((high == bottom) & (unsigned >= np.uint64(least)))
        batch.fail(lanes, wrong | ~inside)
        both = np.where((wrong | ~inside)[:, None], 0, np.stack([low, high], axis=1))
        buffers = [None, pa.py_buffer(np.ascontiguousarray(both))]
        value = pa.Array.from_buffers(pa.decimal128(38, found.scale), len(both), buffers)
        return value.cast(pa.decimal128(kind.precision, kind.scale))

    return decimals


def _enum(node: Node, shape: Shape | None) -> Step:
    if shape is not None and not isinstance(shape.data_type, T.StringType):
        raise _NoFastLane
    symbols = pa.array([read for _, read in node.symbols], pa.string())
    lacking = np.array([read is None for _, read in node.symbols] + [True])

    def enum(batch: _Batch, lanes: Lanes) -> Any:
        index = batch.number(lanes, 5)
        index = np.where((index < 0) | (index >= len(symbols)), len(symbols), index)
        wrong = lacking[index]
        batch.fail(lanes, wrong)
        return None if shape is None else symbols.take(pa.array(index, mask=wrong))

    return enum


def _union(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    branches = [None if b.kind == "null" else _step(b, seen, shape) for b in node.inner]

    def union(batch: _Batch, lanes: Lanes) -> Any:
        index = batch.number(lanes, 5)
        batch.fail(lanes, (index < 0) | (index >= len(branches)))
        places, pieces = [], []
        for number, step in enumerate(branches):
            place = np.flatnonzero(index == number)
            if step is not None and len(place):
                places.append(place)
                pieces.append(step(batch, lanes[place]))
        if shape is None:
            return None
        if len(pieces) == 1 and len(places[0]) == len(lanes):
            return pieces[0]
        if not pieces:
            return pa.nulls(len(lanes), arrow_type(shape))
        source, absent = np.zeros(len(lanes), np.int64), np.ones(len(lanes), bool)
        place = np.concatenate(places)
        source[place], absent[place] = np.arange(len(place)), False
        return pa.concat_arrays(pieces).take(pa.array(source, mask=absent))

    return union


def _of_member(node: Node, seen: Shape, shape: Shape) -> Step:
    """A branch of a union that is a struct of its members."""
    within = next(f for f in seen.fields if f.name == node.member)
    bare = Node(**{**vars(node), "member": None})
    member = next((f for f in shape.fields if f.name == node.member), None)
    if member is None or any(f.required or f.name not in {s.name for s in seen.fields} for f in shape.fields):
        raise _NoFastLane
    step, final = _step(bare, within.shape, member.shape), arrow_type(shape)

    def of_member(batch: _Batch, lanes: Lanes) -> Any:
        value = step(batch, lanes)
        columns = [value if f is member else pa.nulls(len(lanes), arrow_type(f.shape)) for f in shape.fields]
        return pa.StructArray.from_arrays(columns, fields=list(final))

    return of_member


def _items(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    """The items of arrays and maps: the first of all records, then the second of those that have one."""
    wanted = seen is not None and shape is not None
    inner_seen = seen.element if seen is not None else None
    inner = shape.element if shape is not None else None
    if wanted and (inner is None or inner_seen is None or (arrow_type_kind(shape) != node.kind)):
        raise _NoFastLane
    step = _step(node.inner[0], inner_seen if wanted else None, inner if wanted else None)
    is_map = node.kind == "map"

    def items(batch: _Batch, lanes: Lanes) -> Any:
        owners: list[Any] = []
        keys: list[pa.Array] = []
        values: list[pa.Array] = []
        open_ = lanes
        while len(open_):
            count = batch.number(open_)
            sized = count < 0
            if sized.any():
                batch.number(open_[sized])
                count = np.abs(count)
            # Each item takes a byte at least, or the strict lane.
            batch.fail(open_, (count < 0) | (count > batch.ends[open_] - batch.at[open_]))
            going = (count > 0) & batch.right[open_]
            open_, count = open_[going], count[going]
            for number in range(int(count.max(initial=0))):
                here = open_[count > number]
                if not batch.goes_on(here, number):
                    break
                owners.append(here)
                if is_map:
                    begins, ends = batch.taken(here, batch.number(here))
                    keys.append(_as_text(batch, here, batch.texts(begins, ends)))
                values.append(step(batch, here))
        if not wanted:
            return None
        assert shape is not None
        assert inner is not None
        owner = np.concatenate(owners) if owners else np.zeros(0, np.int64)
        order = np.argsort(owner, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(batch.ends))[lanes])])
        value = _ordered(values, order, arrow_type(inner))
        if not inner.nullable and value.null_count:
            batch.fail(owner[order], ~value.is_valid().to_numpy(zero_copy_only=False))
        if not is_map:
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), value)
        key = _ordered(keys, order, pa.string())
        _fail_repeated(batch, owner[order], key)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), key.fill_null(""), value)

    return items


def arrow_type_kind(shape: Shape | None) -> str:
    return "" if shape is None else shape.data_type.typeName()


def _ordered(pieces: list[pa.Array], order: Any, kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(pieces).take(pa.array(order)) if pieces else pa.nulls(0, kind)


def _fail_repeated(batch: _Batch, owner: Any, key: pa.StringArray) -> None:
    """Of a key that a map has twice the last counts: for the strict lane."""
    if not len(key):
        return
    codes = key.fill_null("").dictionary_encode().indices.to_numpy().astype(np.int64)
    both = owner * (int(codes.max()) + 1) + codes
    _, first, times = np.unique(both, return_index=True, return_counts=True)
    batch.right[owner[first[times > 1]]] = False


def _record(node: Node, seen: tuple[Field, ...], fields: tuple[Field, ...]) -> Step:
    if node.kind != "record":
        raise _NoFastLane
    shapes, declared = {f.name: f.shape for f in seen}, {f.name: f for f in fields}
    steps: list[tuple[Field | None, Step]] = []
    for name, each in node.fields:
        field = declared.get(name) if name is not None else None
        if field is None:
            steps.append((None, _step(each, None, None)))
        else:
            steps.append((field, _step(each, shapes[field.name], field.shape)))
    constants = _constants(node, seen, fields, {f.name for f, _ in steps if f is not None})
    kinds = [pa.field(f.column, arrow_type(f.shape)) for f in fields]

    def record(batch: _Batch, lanes: Lanes) -> Any:
        columns: dict[str, pa.Array] = {
            name: pa.repeat(value, len(lanes)) for name, value in constants.items()
        }
        for field, step in steps:
            value = step(batch, lanes)
            if field is None:
                continue
            if field.required and value.null_count:
                batch.fail(lanes, ~value.is_valid().to_numpy(zero_copy_only=False))
            columns[field.column] = value
        return pa.StructArray.from_arrays([columns[f.column] for f in fields], fields=kinds)

    return record


def _constants(
    node: Node, seen: tuple[Field, ...], fields: tuple[Field, ...], read: set[str]
) -> dict[str, pa.Scalar]:
    """Columns that no record brings: of defaults of the reader's schema or of the stream's."""
    absent = tuple(f for f in fields if f.name not in read)
    given = {name: reader_of(each)(default, 0)[0] for name, each, default in node.missing}
    faults = Faults()
    row = struct_of(tuple(f for f in seen if f.name in given), absent)(given, None, faults)
    if faults.code is not None:
        raise _NoFastLane
    return {f.column: pa.scalar(row[f.column], arrow_type(f.shape)) for f in absent}
