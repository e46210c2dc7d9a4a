"""A stream's schema: from its DDL or file, with the options of its fields, under the naming rule.

**Column names.** A table's column is the field's name with every character other than letters, digits
and `_` (of any script) replaced by `_`: `order.id` becomes `order_id`, `unit price` `unit_price`. The
same at any depth. `fields.<name>.column` gives another name. Two names that end up as one, whatever
their case, are a fault of the configuration, and so is a name that the pipeline itself uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import types as T

from tidemark.config.decoding import FieldOptions, SchemaSource
from tidemark.contract import records
from tidemark.transform.fields import Field, Shape, array_shape, map_shape, secret, struct_shape, walk
from tidemark.transform.schema_avsc import AvroSchemaError, fields_from_avro, load
from tidemark.transform.schema_ddl import DdlError, fields_from_ddl
from tidemark.transform.schema_json import JsonSchemaError, fields_from_json_schema

RESERVED = frozenset(
    {
        *records.ENVELOPE_COLUMNS,
        *records.ADDED_COLUMNS,
        records.ROUTE,
        records.ROW,
        records.FAILURE,
        records.UNKNOWN_FIELDS,
        records.EXTRA,
        "schema_id",
    }
)


INTERNAL = re.compile(r"_(?:decoded|violations|format|unfit|classified|check\d+)")
"""Columns of the pipeline's steps that are kept next to the decoded ones."""


def load_fields(source: SchemaSource, base_dir: Path) -> tuple[tuple[Field, ...], list[str]]:
    """The fields of the schema as written, and what is wrong with it; never raises for bad input."""
    if (source.ddl is None) == (source.file is None):
        return (), ["schema: give exactly one of ddl and file"]
    if source.ddl is not None:
        return _read("schema.ddl", source.ddl, ".ddl")
    path = base_dir / str(source.file)
    text, faults = read_text(path, "schema.file")
    return _read(f"schema.file {source.file}", text, path.suffix.lower()) if not faults else ((), faults)


def read_text(path: Path, key: str) -> tuple[str, list[str]]:
    try:
        return path.read_text(encoding="utf-8"), []
    except FileNotFoundError:
        return "", [f"{key}: no file {path}"]
    except (OSError, UnicodeDecodeError) as error:
        return "", [f"{key}: cannot read {path}: {error}"]


def _read(place: str, text: str, suffix: str) -> tuple[tuple[Field, ...], list[str]]:
    try:
        if suffix in (".ddl", ".sql"):
            return fields_from_ddl(text), []
        if suffix == ".avsc":
            return fields_from_avro(load(text)), []
        if suffix == ".json":
            return fields_from_json_schema(json.loads(text)), []
    except (DdlError, AvroSchemaError, JsonSchemaError, json.JSONDecodeError) as error:
        return (), [f"{place}: {error}"]
    return (), [f"{place}: name it .ddl, .json (JSON Schema) or .avsc"]


def column_name(name: str) -> str:
    """The column of a field, by the naming rule.

    >>> column_name("order.id"), column_name("unit price"), column_name("größe")
    ('order_id', 'unit_price', 'größe')
    """
    return re.sub(r"\W", "_", name)


def finish_fields(
    fields: tuple[Field, ...], options: Mapping[str, FieldOptions]
) -> tuple[tuple[Field, ...], list[str]]:
    """Fields with their options and column names, and all faults found."""
    faults: list[str] = []
    paths = {path for path, _ in walk(fields)}
    for path in options:
        if path not in paths:
            faults.append(f"fields.{path}: the schema has no such field")
    finished = _finish(fields, options, "", faults)
    for each in finished:
        column = each.column.lower()
        if column in {r.lower() for r in RESERVED} or INTERNAL.fullmatch(column):
            faults.append(f"column {each.column}: the pipeline uses this name; set fields.{each.name}.column")
    return finished, faults


def _finish(
    fields: tuple[Field, ...], options: Mapping[str, FieldOptions], parent: str, faults: list[str]
) -> tuple[Field, ...]:
    done: list[Field] = []
    for each in fields:
        path = f"{parent}.{each.name}" if parent else each.name
        chosen = options.get(path)
        shape = _finish_shape(each.shape, options, path, faults)
        field = replace(each, shape=shape, column=column_name(each.name))
        done.append(_with_options(field, chosen, path, faults) if chosen else field)
    seen: dict[str, str] = {}
    for each in done:
        other = seen.setdefault(each.column.lower(), each.name)
        if other != each.name or [d.name for d in done].count(each.name) > 1:
            where = f" in {parent}" if parent else ""
            text = f"fields {other!r} and {each.name!r}{where} are one column, {each.column}"
            text += f"; set fields.{each.name}.column"
            if text not in faults:
                faults.append(text)
    return tuple(done)


def _finish_shape(shape: Shape, options: Mapping[str, FieldOptions], path: str, faults: list[str]) -> Shape:
    if shape.fields:
        done = struct_shape(_finish(shape.fields, options, path, faults), secret=shape.secret)
        return replace(done, nullable=shape.nullable)
    if shape.element is not None:
        inner = _finish_shape(shape.element, options, path, faults)
        build = array_shape if isinstance(shape.data_type, T.ArrayType) else map_shape
        return replace(build(inner, secret=shape.secret), nullable=shape.nullable)
    return shape


def _with_options(field: Field, chosen: FieldOptions, path: str, faults: list[str]) -> Field:
    kind = field.shape.data_type
    if chosen.epoch and not isinstance(kind, T.TimestampType):
        faults.append(f"fields.{path}.epoch: the field is {field.shape.expected}, not TIMESTAMP")
    if chosen.default is not None and not _fits(field.shape, default=chosen.default):
        faults.append(f"fields.{path}.default: {chosen.default!r} is not {field.shape.expected}")
    shape = replace(field.shape, epoch=chosen.epoch)
    return replace(
        field,
        shape=secret(shape) if chosen.secret else shape,
        required=field.required or chosen.required,
        default=field.default if chosen.default is None else chosen.default,
        column=chosen.column or field.column,
    )


def _fits(shape: Shape, *, default: str | int | float | bool) -> bool:
    kind = shape.data_type
    if isinstance(kind, T.BooleanType) or isinstance(default, bool):
        return isinstance(kind, T.BooleanType) and isinstance(default, bool)
    if isinstance(kind, T.StringType):
        return isinstance(default, str)
    limits = {T.ByteType: 7, T.ShortType: 15, T.IntegerType: 31, T.LongType: 63}
    for integer, bits in limits.items():
        if isinstance(kind, integer):
            return isinstance(default, int) and -(2**bits) <= default < 2**bits
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return isinstance(default, int | float)
    if isinstance(kind, T.DecimalType):
        text = str(default).lstrip("-")
        whole, _, fraction = text.partition(".")
        return (
            (whole + fraction).isdigit()
            and len(fraction) <= kind.scale
            and len(whole) <= kind.precision - kind.scale
        )
    if isinstance(kind, T.DateType):
        return isinstance(default, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", default) is not None
    return False
