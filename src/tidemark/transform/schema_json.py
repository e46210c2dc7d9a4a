"""JSON Schema to fields: the part of it that says what a table column is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T

from tidemark.transform.fields import Field, Shape, array_shape, map_shape, struct_shape

_FORMATS: dict[str, T.DataType] = {
    "date": T.DateType(),
    "date-time": T.TimestampType(),
}
_CONTENT = "contentEncoding"


class JsonSchemaError(ValueError):
    """The JSON Schema is wrong or says what a table column cannot hold."""


def fields_from_json_schema(schema: Any) -> tuple[Field, ...]:
    """Fields of an object schema: `required`, `default`, `format: date|date-time`, local `$ref`s.

    `integer` is BIGINT, or INT with `format: int32`; `number` is DOUBLE, or DECIMAL(p, s) by the
    extension `x-decimal: [p, s]`; `string` is STRING, with `contentEncoding: base64` BINARY.
    """
    if not isinstance(schema, Mapping):
        raise JsonSchemaError("the schema must be an object")
    shape, _ = _shape(schema, schema, "", ())
    if not shape.fields:
        raise JsonSchemaError("the top of the schema must be an object with properties")
    return shape.fields


def _shape(schema: Any, root: Mapping[str, Any], place: str, refs: tuple[str, ...]) -> tuple[Shape, bool]:
    """The shape, and whether null is allowed."""
    if not isinstance(schema, Mapping):
        raise JsonSchemaError(f"{place or 'top'}: expected an object")
    if "$ref" in schema:
        ref = schema["$ref"]
        if ref in refs:
            raise JsonSchemaError(f"{place}: {ref} contains itself: a table column cannot be recursive")
        return _shape(_resolve(ref, root, place), root, place, (*refs, ref))
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _either(schema[word], root, place, refs)
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = [k for k in kind if k != "null"]
        if len(rest) != 1:
            raise JsonSchemaError(f"{place}: one type besides null, found {kind}")
        shape, _ = _shape({**schema, "type": rest[0]}, root, place, refs)
        return shape, "null" in kind
    return _typed(kind, schema, root, place, refs), False


def _either(branches: Any, root: Mapping[str, Any], place: str, refs: tuple[str, ...]) -> tuple[Shape, bool]:
    rest = [b for b in branches if not (isinstance(b, Mapping) and b.get("type") == "null")]
    if len(rest) != 1:
        raise JsonSchemaError(f"{place}: a column has one type; anyOf and oneOf may only add null")
    shape, nullable = _shape(rest[0], root, place, refs)
    return shape, nullable or len(rest) < len(branches)


def _resolve(ref: Any, root: Mapping[str, Any], place: str) -> Any:
    if not isinstance(ref, str) or not ref.startswith("#/"):
        raise JsonSchemaError(f"{place}: only references inside the file are followed, found {ref}")
    found: Any = root
    for part in ref[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or part not in found:
            raise JsonSchemaError(f"{place}: {ref} does not exist")
        found = found[part]
    return found


def _typed(
    kind: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str, refs: tuple[str, ...]
) -> Shape:
    if kind == "string":
        if schema.get(_CONTENT) == "base64":
            return Shape(T.BinaryType())
        return Shape(_FORMATS.get(schema.get("format", ""), T.StringType()))
    if kind == "boolean":
        return Shape(T.BooleanType())
    if kind == "integer":
        return Shape(T.IntegerType() if schema.get("format") == "int32" else T.LongType())
    if kind == "number":
        return Shape(_number(schema, place))
    if kind == "array":
        element, nullable = _shape(schema.get("items", {"type": "string"}), root, f"{place}[]", refs)
        return array_shape(Shape(**{**element.__dict__, "nullable": nullable}))
    if kind == "object":
        if "properties" in schema:
            return struct_shape(_properties(schema, root, place, refs))
        inner = schema.get("additionalProperties", {"type": ["string", "null"]})
        inner = {"type": ["string", "null"]} if inner is True else inner
        value, nullable = _shape(inner, root, f"{place}{{}}", refs)
        return map_shape(Shape(**{**value.__dict__, "nullable": nullable}))
    raise JsonSchemaError(f"{place or 'top'}: type {kind!r} is not a column's")


def _number(schema: Mapping[str, Any], place: str) -> T.DataType:
    wanted = schema.get("x-decimal")
    if wanted is None:
        return T.FloatType() if schema.get("format") == "float" else T.DoubleType()
    if not (
        isinstance(wanted, list) and len(wanted) == 2 and 0 <= wanted[1] <= wanted[0] <= 38 and wanted[0] > 0
    ):
        raise JsonSchemaError(f"{place}: x-decimal is [precision, scale], found {wanted}")
    return T.DecimalType(wanted[0], wanted[1])


def _properties(
    schema: Mapping[str, Any], root: Mapping[str, Any], place: str, refs: tuple[str, ...]
) -> tuple[Field, ...]:
    required = set(schema.get("required", []))
    fields = []
    for name, inner in schema["properties"].items():
        path = f"{place}.{name}" if place else name
        shape, nullable = _shape(inner, root, path, refs)
        default = inner.get("default") if isinstance(inner, Mapping) else None
        fields.append(
            Field(
                name,
                name,
                shape,
                required=name in required and not nullable,
                default=default if isinstance(default, str | int | float | bool) else None,
                comment=inner.get("description") if isinstance(inner, Mapping) else None,
            )
        )
    missing = required - set(schema["properties"])
    if missing:
        raise JsonSchemaError(f"{place or 'top'}: required names no property: {', '.join(sorted(missing))}")
    return tuple(fields)
