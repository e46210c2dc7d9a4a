"""Avro schemas: to fields, and in the shape in which records of them are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

from tidemark.transform.fields import Field, Shape, array_shape, map_shape, struct_shape
from tidemark.transform.schema_references import with_references

_PRIMITIVES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
}
_LOGICAL: dict[tuple[str, str], T.DataType] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
}
_NAMED = ("record", "error", "enum", "fixed")


class AvroSchemaError(ValueError):
    """The Avro schema is wrong or uses what a table column cannot hold."""


@dataclass(frozen=True)
class UnusableSchema:
    """A registered schema whose records cannot be rows, and why. It stands for a writer's schema."""

    why: str


def load(text: str, referenced: Iterable[str] = ()) -> Any:
    """The schema, without the logical types that a table has no column for, and with the types of the schemas
    that it refers to. Raises `AvroSchemaError`.
    """
    try:
        others = [json.loads(each) for each in referenced]
        return _clean(with_references(json.loads(text), others) if others else json.loads(text))
    except json.JSONDecodeError as error:
        raise AvroSchemaError(f"is not JSON: {error}") from error


def fields_from_avro(schema: Any) -> tuple[Field, ...]:
    """Fields of a record schema; a field whose type has no null branch and no default is required."""
    if not isinstance(schema, Mapping) or schema.get("type") not in ("record", "error"):
        raise AvroSchemaError("the top of the schema must be a record")
    return _shape(schema, {}, (), "").fields


def _clean(schema: Any) -> Any:
    """Logical types that Tidemark has no column for become their plain type."""
    return _rewritten(schema, lambda s: s if "logicalType" not in s or _known(s) else _plain(s))


def readable(schema: Any, millis: Collection[str] = ()) -> Any:
    """The record schema by which its bytes are read: whatever they hold comes out, and is checked afterwards.

    Decimals have all the digits that fit, so that one too long for its own precision comes out and is reported.
    The fields `millis` of the record lose `timestamp-millis`: they come out as numbers, of any size.
    """
    wide = _rewritten(schema, _widened)
    fields = [_without_millis(f) if f["name"] in millis else f for f in wide.get("fields", ())]
    return {**wide, "fields": fields}


def _rewritten(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if isinstance(schema, list):
        return [_rewritten(s, change) for s in schema]
    if not isinstance(schema, dict):
        return schema
    kept = dict(change(schema))
    for key in ("items", "values", "type"):
        if key in kept:
            kept[key] = _rewritten(kept[key], change)
    if "fields" in kept:
        kept["fields"] = [_rewritten(f, change) for f in kept["fields"]]
    return kept


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in schema.items() if k != "logicalType"}


def _widened(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("logicalType") != "decimal":
        return schema
    fitting = len(str(2 ** (8 * schema["size"] - 1) - 1)) - 1 if schema.get("type") == "fixed" else 38
    return {**schema, "precision": max(schema["precision"], min(38, fitting))}


def _without_millis(field: dict[str, Any]) -> dict[str, Any]:
    kind = field["type"]
    branches = kind if isinstance(kind, list) else [kind]
    plain = [_plain(b) if isinstance(b, dict) and _is_millis(b) else b for b in branches]
    return {**field, "type": plain if isinstance(kind, list) else plain[0]}


def is_millis(field: Mapping[str, Any]) -> bool:
    """Whether the field of a record schema is a `timestamp-millis`, or null."""
    kind = field["type"]
    present = [b for b in (kind if isinstance(kind, list) else [kind]) if b != "null"]
    return len(present) == 1 and isinstance(present[0], dict) and _is_millis(present[0])


def _is_millis(schema: Mapping[str, Any]) -> bool:
    return (schema.get("type"), schema.get("logicalType")) == ("long", "timestamp-millis")


def _known(schema: Mapping[str, Any]) -> bool:
    logical = schema.get("logicalType")
    return logical in ("decimal", "uuid") or (schema.get("type"), logical) in _LOGICAL


def _shape(schema: Any, named: dict[str, Any], open_: tuple[str, ...], namespace: str) -> Shape:
    if isinstance(schema, list):
        return _union(schema, named, open_, namespace)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return Shape(_PRIMITIVES[schema])
        full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        full = full if full in named else schema
        if full in open_:
            raise AvroSchemaError(f"type {full} contains itself: a table column cannot be recursive")
        if full not in named:
            raise AvroSchemaError(f"type {schema} is not defined")
        return _shape(named[full], named, open_, namespace)
    if not isinstance(schema, Mapping) or "type" not in schema:
        raise AvroSchemaError(f"expected a type, found {json.dumps(schema)[:80]}")
    kind = schema["type"]
    if isinstance(kind, list | dict):
        return _shape(kind, named, open_, namespace)
    if kind in _NAMED:
        return _named(schema, named, open_, namespace)
    if kind == "array":
        return array_shape(_shape(schema["items"], named, open_, namespace))
    if kind == "map":
        return map_shape(_shape(schema["values"], named, open_, namespace))
    if schema.get("logicalType") == "decimal" and kind == "bytes":
        return Shape(_decimal(schema))
    logical = _LOGICAL.get((kind, schema.get("logicalType", "")))
    return Shape(logical) if logical else _shape(kind, named, open_, namespace)


def _decimal(schema: Mapping[str, Any]) -> T.DecimalType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise AvroSchemaError(
            f"decimal with precision {precision} and scale {scale}: the precision is 1 to 38"
        )
    return T.DecimalType(precision, scale)


def _named(schema: Mapping[str, Any], named: dict[str, Any], open_: tuple[str, ...], outer: str) -> Shape:
    name = schema.get("name")
    if not isinstance(name, str):
        raise AvroSchemaError(f"a {schema['type']} has no name")
    namespace = name.rpartition(".")[0] or schema.get("namespace", outer)
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    named[full] = schema
    if schema["type"] == "enum":
        return Shape(T.StringType())
    if schema["type"] == "fixed":
        return Shape(_decimal(schema) if schema.get("logicalType") == "decimal" else T.BinaryType())
    fields = []
    for each in schema.get("fields", []):
        kind = each["type"]
        shape = _shape(kind, named, (*open_, full), namespace)
        nullable = kind == "null" or (isinstance(kind, list) and "null" in kind)
        required = not nullable and "default" not in each
        fields.append(Field(each["name"], each["name"], shape, required=required))
    if not fields:
        raise AvroSchemaError(f"record {full} has no fields")
    return struct_shape(tuple(fields))


def _union(branches: list[Any], named: dict[str, Any], open_: tuple[str, ...], namespace: str) -> Shape:
    """As Spark reads them: null is dropped, int and long widen, anything else is a struct of members."""
    present = [b for b in branches if b != "null"]
    if not present:
        raise AvroSchemaError("a union of null alone has no type")
    if len(present) == 1:
        return _shape(present[0], named, open_, namespace)
    if set(map(str, present)) == {"int", "long"}:
        return Shape(T.LongType())
    if set(map(str, present)) == {"float", "double"}:
        return Shape(T.DoubleType())
    members = [
        Field(f"member{i}", f"member{i}", _shape(b, named, open_, namespace)) for i, b in enumerate(present)
    ]
    return struct_shape(tuple(members))
