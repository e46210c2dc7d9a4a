"""What Arrow's JSON reader gave, column by column: the values as the table has them, and what proves them.

A record is right where each value is, and where its quotes are accounted for: each key and each string has
two, and an escaped quote is in a string. A key that is unknown, or named twice, or null, or quotes around a
number, add some; nothing takes any away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.arrow_types import arrow_type, struct_type
from tidemark.transform.decode.scalar import binary, datetime_value, default_of, epoch_range
from tidemark.transform.decode.usual_forms import binary_or_time, form_of
from tidemark.transform.fields import DATETIMES, FLOATS, Field, Shape


class Seen(NamedTuple):
    """Values, which of them are right, and the quotes that each has at least. `filled`: has a default that is
    for an absent field, and was absent or null.
    """

    values: pa.Array
    sound: np.ndarray
    quotes: np.ndarray
    filled: np.ndarray


def columns_of(fields: tuple[Field, ...]) -> list[pa.Field]:
    """What the reader is to read each field as."""
    return [pa.field(f.name, _read_as(f.shape)) for f in fields]


def _read_as(shape: Shape) -> pa.DataType:
    if shape.fields:
        return pa.struct(columns_of(shape.fields))
    if shape.element is not None:
        return pa.list_(_read_as(shape.element))
    if shape.epoch:
        return pa.int64()
    return pa.string() if _is_text(shape.data_type) else arrow_type(shape)


def _is_text(kind: T.DataType) -> bool:
    return isinstance(kind, (T.StringType, T.BinaryType, *DATETIMES))


def members_seen(columns: list[pa.Array], fields: tuple[Field, ...], *, escapes: bool) -> Seen:
    """Of the columns of an object's fields. `escapes`: whether there are any in the text."""
    count = len(columns[0])
    sound, filled = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    quotes = np.zeros(count, dtype=np.int64)
    values = []
    for column, field in zip(columns, fields, strict=True):
        seen = _seen(column, field.shape, escapes=escapes)
        value = seen.values
        given = _valid(value if seen.sound.all() else column)
        quotes += (2 + field.name.count('"')) * given + seen.quotes
        sound &= seen.sound
        filled |= seen.filled
        default = default_of(field)
        if default is not None:
            filled |= ~given
            value = value.fill_null(pa.scalar(default, value.type))
        elif field.required:
            sound &= given
        values.append(value)
    return Seen(pa.StructArray.from_arrays(values, fields=list(struct_type(fields))), sound, quotes, filled)


def _seen(column: pa.Array, shape: Shape, *, escapes: bool) -> Seen:
    if shape.fields:
        return _struct(column, shape, escapes=escapes)
    if shape.element is not None:
        return _list(column, shape, escapes=escapes)
    count, kind = len(column), shape.data_type
    sound, none = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
    quotes = np.zeros(count, dtype=np.int64)
    if shape.epoch:
        return Seen(*_instants(column, shape.epoch, arrow_type(shape)), quotes, none)
    if isinstance(kind, FLOATS):
        finite = pc.is_finite(column).fill_null(fill_value=True)
        return Seen(column, finite.to_numpy(zero_copy_only=False), quotes, none)
    if isinstance(kind, T.DecimalType):
        return Seen(column, _fitting(column, kind.precision), quotes, none)
    if not _is_text(kind):
        return Seen(column, sound, quotes, none)
    quotes = 2 * _valid(column).astype(np.int64)
    if escapes:
        quotes += pc.count_substring(column, '"').fill_null(0).to_numpy(zero_copy_only=False)
    if isinstance(kind, T.StringType):
        return Seen(column, sound, quotes, none)
    return Seen(*_from_text(column, shape), quotes, none)


def _struct(column: pa.StructArray, shape: Shape, *, escapes: bool) -> Seen:
    given = _valid(column)
    children = [column.field(at) for at in range(len(shape.fields))]
    seen = members_seen(children, shape.fields, escapes=escapes)
    values = seen.values
    if not given.all():
        parts = [values.field(at) for at in range(len(shape.fields))]
        values = pa.StructArray.from_arrays(parts, fields=list(values.type), mask=pa.array(~given))
    return Seen(values, seen.sound | ~given, seen.quotes * given, seen.filled & given)


def _list(column: pa.ListArray, shape: Shape, *, escapes: bool) -> Seen:
    element = shape.element
    assert element is not None
    seen = _seen(column.values, element, escapes=escapes)
    sound = seen.sound if element.nullable else seen.sound & _valid(column.values)
    offsets = column.offsets.to_numpy()
    mask = None if column.null_count == 0 else column.is_null()
    values = pa.ListArray.from_arrays(column.offsets, seen.values, mask=mask)
    return Seen(
        values.cast(arrow_type(shape)) if values.type != arrow_type(shape) else values,
        _summed(~sound, offsets) == 0,
        _summed(seen.quotes, offsets),
        _summed(seen.filled, offsets) > 0,
    )


def _summed(each: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The sum of each list's elements."""
    sums = np.concatenate([[0], np.cumsum(each, dtype=np.int64)])
    found: np.ndarray = sums[offsets[1:]] - sums[offsets[:-1]]
    return found


def _instants(column: pa.Array, unit: str, final: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    factor, first, last = epoch_range(unit)
    given = _valid(column)
    if not given.any():
        return pa.nulls(len(column), final), ~given
    number = np.frombuffer(column.buffers()[1], dtype=np.int64)[column.offset : column.offset + len(column)]
    inside = (number >= first) & (number <= last)
    micros = np.where(inside & given, number, 0) * factor
    return pa.array(micros, mask=~given).view(pa.timestamp("us")).view(final), inside | ~given


def _fitting(column: pa.Array, precision: int) -> np.ndarray:
    """Which decimals have no more digits: the reader looks before it adds the zeros of the scale."""
    if column.null_count == len(column):
        return np.ones(len(column), dtype=bool)
    low, high = (np.frombuffer(column.buffers()[1], dtype=d) for d in ("<u8", "<i8"))
    places = slice(column.offset * 2, (column.offset + len(column)) * 2)
    low, high = low[places][0::2], high[places][1::2]
    most_high, most_low = divmod(10**precision, 1 << 64)
    least_high, least_low = divmod(-(10**precision), 1 << 64)
    over = (high > most_high) | ((high == most_high) & (low >= most_low))
    under = (high < least_high) | ((high == least_high) & (low <= least_low))
    found: np.ndarray = ~_valid(column) | ~(over | under)
    return found


def _from_text(column: pa.Array, shape: Shape) -> tuple[pa.Array, np.ndarray]:
    """The values of text: in the usual form all at once, of each other one by itself."""
    kind, final = shape.data_type, arrow_type(shape)
    usual = pc.match_substring_regex(column, rf"^(?:{form_of(shape)})\z").fill_null(fill_value=True)
    if usual.false_count == 0:
        return binary_or_time(column, kind, final), np.ones(len(column), dtype=bool)
    others = usual.to_numpy(zero_copy_only=False)
    texts = column.take(pa.array(np.flatnonzero(~others))).to_pylist()
    read = binary if isinstance(kind, T.BinaryType) else lambda text: datetime_value(text, kind)
    found = [read(text) for text in texts]
    # What is NULL may still have its bytes in the array, which base64 is decoded of.
    nothing = pa.scalar("" if isinstance(kind, T.BinaryType) else None, pa.string())
    values = binary_or_time(pc.if_else(usual, column, nothing), kind, final)
    parsed = pa.array([None if isinstance(value, Code) else value for value in found], final)
    sound = others.copy()
    sound[~others] = [not isinstance(value, Code) for value in found]
    return pc.replace_with_mask(values, pc.invert(usual), parsed), sound


def _valid(column: pa.Array) -> np.ndarray:
    if column.null_count == 0:
        return np.ones(len(column), dtype=bool)
    found: np.ndarray = column.is_valid().to_numpy(zero_copy_only=False)
    return found
