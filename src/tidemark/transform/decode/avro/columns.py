"""Steps of the fast lane of Avro that read one value of each record into a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from tidemark.transform.decode.arrow_types import arrow_type
from tidemark.transform.decode.avro.batch import Batch, Lanes, NoFastLane, Step, as_text
from tidemark.transform.decode.avro.schema import Node
from tidemark.transform.decode.scalar import FIRST_DAY, LAST_DAY, epoch_range
from tidemark.transform.fields import FLOATS, INTEGERS, Shape


def number_step(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    convert = None if seen is None or shape is None else _converted(node, seen, shape)

    def number(batch: Batch, lanes: Lanes) -> Any:
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


def _converted(node: Node, seen: Shape, shape: Shape) -> Callable[[Batch, Lanes, Any], pa.Array]:
    """From what the bytes say to the column's value, as `values` has it."""
    kind, found, final = shape.data_type, seen.data_type, arrow_type(shape)
    if not (seen.is_scalar and shape.is_scalar):
        raise NoFastLane
    target = {"float": np.float32, "double": np.float64}.get(node.target.kind)
    unit = "ms" if seen.epoch or "millis" in node.target.logical else "us"
    if isinstance(found, INTEGERS) and isinstance(kind, T.TimestampType) and (seen.epoch or shape.epoch):
        return _moments(seen.epoch or shape.epoch or "us", final)
    if isinstance(found, INTEGERS) and seen.epoch is None and isinstance(kind, INTEGERS):
        bits = final.bit_width - 1

        def whole(batch: Batch, lanes: Lanes, value: Any) -> pa.Array:
            batch.between(lanes, value, -(1 << bits), (1 << bits) - 1)
            return pa.array(value.astype(final.to_pandas_dtype()))

        return whole
    if isinstance(found, (*INTEGERS, *FLOATS)) and seen.epoch is None and isinstance(kind, FLOATS):

        def floating(batch: Batch, lanes: Lanes, value: Any) -> pa.Array:
            with np.errstate(over="ignore", invalid="ignore"):
                value = value if target is None else value.astype(target)
                value = value.astype(final.to_pandas_dtype())
            batch.fail(lanes, ~np.isfinite(value))
            return pa.array(value)

        return floating
    if isinstance(found, INTEGERS) and seen.epoch is None and isinstance(kind, T.StringType):
        return lambda batch, lanes, value: pa.array(value).cast(pa.string())
    if found != kind:
        raise NoFastLane
    if isinstance(kind, T.BooleanType):
        return lambda batch, lanes, value: pa.array(value)
    if isinstance(kind, T.DateType):

        def days(batch: Batch, lanes: Lanes, value: Any) -> pa.Array:
            batch.between(lanes, value, FIRST_DAY, LAST_DAY)
            return pa.array(value.astype(np.int32)).view(final)

        return days
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return _moments(unit, final)
    raise NoFastLane


def _moments(unit: str, final: pa.DataType) -> Callable[[Batch, Lanes, Any], pa.Array]:
    factor, first, last = epoch_range(unit)

    def moments(batch: Batch, lanes: Lanes, value: Any) -> pa.Array:
        batch.between(lanes, value, first, last)
        return pa.array(value * factor).view(final)

    return moments


def text_step(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    finish = None if seen is None or shape is None else _cut(node, seen, shape)

    def text(batch: Batch, lanes: Lanes) -> Any:
        size = np.full(len(lanes), node.size) if node.kind == "fixed" else batch.number(lanes)
        begins, ends = batch.taken(lanes, size)
        return None if finish is None else finish(batch, lanes, begins, ends)

    return text


def _cut(node: Node, seen: Shape, shape: Shape) -> Callable[[Batch, Lanes, Any, Any], pa.Array]:
    kind, found = shape.data_type, seen.data_type
    if isinstance(found, T.DecimalType) and isinstance(kind, T.DecimalType) and kind.scale >= found.scale:
        return _decimals(found, kind)
    if found != kind or not isinstance(kind, T.StringType | T.BinaryType):
        raise NoFastLane

    def cut(batch: Batch, lanes: Lanes, begins: Any, ends: Any) -> pa.Array:
        value = batch.texts(begins, ends)
        return value if isinstance(kind, T.BinaryType) else as_text(batch, lanes, value)

    return cut


def _decimals(found: T.DecimalType, kind: T.DecimalType) -> Callable[[Batch, Lanes, Any, Any], pa.Array]:
    """Whole numbers of up to 16 bytes, the highest first, below the bound of both types."""
    bound = 10 ** min(found.precision, kind.precision - (kind.scale - found.scale))
    (top, rest), (bottom, least) = (divmod(n, 1 << 64) for n in (bound, 1 - bound))

    def decimals(batch: Batch, lanes: Lanes, begins: Any, ends: Any) -> pa.Array:
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


def enum_step(node: Node, shape: Shape | None) -> Step:
    if shape is not None and not isinstance(shape.data_type, T.StringType):
        raise NoFastLane
    symbols = pa.array([read for _, read in node.symbols], pa.string())
    lacking = np.array([read is None for _, read in node.symbols] + [True])

    def enum(batch: Batch, lanes: Lanes) -> Any:
        index = batch.number(lanes, 5)
        index = np.where((index < 0) | (index >= len(symbols)), len(symbols), index)
        wrong = lacking[index]
        batch.fail(lanes, wrong)
        return None if shape is None else symbols.take(pa.array(index, mask=wrong))

    return enum
