"""The fast lane of Avro: a batch of records read together, one field after another.

Where each record stands is a vector; a step reads one value of every record at its place and moves on.
Only a record whose last value ends where its bytes end is taken. What is rare stops it: then the strict
lane reads the record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.transform.decode.arrow_types import arrow_type, struct_type
from tidemark.transform.decode.avro.batch import Batch, Lanes, NoFastLane, Step, as_text
from tidemark.transform.decode.avro.bytes import defaults_of
from tidemark.transform.decode.avro.columns import enum_step, number_step, text_step
from tidemark.transform.decode.avro.schema import Node
from tidemark.transform.decode.avro.strict import AvroReading
from tidemark.transform.decode.avro.values import struct_of
from tidemark.transform.decode.outcome import Faults
from tidemark.transform.fields import Field, Shape

FEW = 48
"""Fewer records than this are decided sooner one by one."""


class AvroArrow:
    """Reads a batch of records of one writer's schema."""

    def __init__(self, reading: AvroReading) -> None:
        self._type = struct_type(reading.fields)
        self._step: Step | None
        try:
            if reading.surplus and reading.unknown_fields != "ignore":
                raise NoFastLane
            self._step = _record(reading.node, reading.seen, reading.fields)
        except (NoFastLane, RecursionError):  # A type that contains itself can only be read over.
            self._step = None
        self._unknown = len(reading.surplus)

    def read(self, payloads: pa.BinaryArray, start: int = 0) -> tuple[pa.StructArray, pa.BooleanArray, int]:
        """The rows, NULL where the payload was not taken, which were, and how many unknown fields each has.

        Records begin at `start`.
        """
        count = len(payloads)
        if self._step is None or count < FEW:
            return pa.nulls(count, self._type), pa.repeat(pa.scalar(value=False), count), 0
        batch = Batch(payloads, start)
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
            raise NoFastLane
        return _record(node, seen.fields, shape.fields)
    if node.kind in ("error", "null"):
        raise NoFastLane
    if node.kind in ("bytes", "string", "fixed"):
        return text_step(node, seen, shape)
    if node.kind == "enum":
        return enum_step(node, shape)
    return number_step(node, seen, shape)


def _over(steps: list[Step]) -> Step:
    def over(batch: Batch, lanes: Lanes) -> None:
        for step in steps:
            step(batch, lanes)

    return over


def _union(node: Node, seen: Shape | None, shape: Shape | None) -> Step:
    branches = [None if b.kind == "null" else _step(b, seen, shape) for b in node.inner]

    def union(batch: Batch, lanes: Lanes) -> Any:
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
        raise NoFastLane
    step, final = _step(bare, within.shape, member.shape), arrow_type(shape)

    def of_member(batch: Batch, lanes: Lanes) -> Any:
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
        raise NoFastLane
    step = _step(node.inner[0], inner_seen if wanted else None, inner if wanted else None)
    is_map = node.kind == "map"

    def items(batch: Batch, lanes: Lanes) -> Any:
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
                    keys.append(as_text(batch, here, batch.texts(begins, ends)))
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


def _fail_repeated(batch: Batch, owner: Any, key: pa.StringArray) -> None:
    """Of a key that a map has twice the last counts: for the strict lane."""
    if not len(key):
        return
    codes = key.fill_null("").dictionary_encode().indices.to_numpy().astype(np.int64)
    both = owner * (int(codes.max()) + 1) + codes
    _, first, times = np.unique(both, return_index=True, return_counts=True)
    batch.right[owner[first[times > 1]]] = False


def _record(node: Node, seen: tuple[Field, ...], fields: tuple[Field, ...]) -> Step:
    if node.kind != "record":
        raise NoFastLane
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

    def record(batch: Batch, lanes: Lanes) -> Any:
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
    given = defaults_of(node)
    faults = Faults()
    row = struct_of(tuple(f for f in seen if f.name in given), absent)(given, None, faults)
    if faults.code is not None:
        raise NoFastLane
    return {f.column: pa.scalar(row[f.column], arrow_type(f.shape)) for f in absent}
