"""The fast lane of JSON: one typed `from_json`, and each field's value from what it read.

`json_proof` tells whether the values are exactly what the payload says; where it cannot, `json_strict`
decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.transform.decode.expressions import get
from tidemark.transform.decode.json_tree import JSON_OPTIONS
from tidemark.transform.decode.scalar import BASE64, EPOCH_MICROS, FIRST_MICROS, LAST_MICROS
from tidemark.transform.fields import FLOATS, Field, Shape
from tidemark.transform.schema import CORRUPT

DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
SECOND = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_USUAL: dict[type[T.DataType], str] = {
    T.DateType: rf"^{DAY}\z",
    T.TimestampType: rf"^{DAY}T{SECOND}(?:\.[0-9]{{3}}(?:[0-9]{{3}})?)?Z\z",
    T.TimestampNTZType: rf"^{DAY}[T ]{SECOND}\z",
}
"""The forms that the fast lane takes. Spark's cast takes many others, and reads `NZ` as New Zealand."""


@dataclass(frozen=True)
class Read:
    """A field as it was read: `raw` by `from_json`, `typed` as the table has it."""

    field: Field
    raw: Column
    typed: Column

    @property
    def shape(self) -> Shape:
        return self.field.shape


def reading_type(shape: Shape) -> T.DataType:
    """The type to read a value as: one that keeps all that is needed to prove it."""
    kind = shape.data_type
    if shape.fields:
        return T.StructType([T.StructField(f.name, reading_type(f.shape)) for f in shape.fields])
    if isinstance(kind, T.ArrayType):
        assert shape.element is not None
        return T.ArrayType(reading_type(shape.element))
    if isinstance(kind, T.MapType):
        assert shape.element is not None
        return T.MapType(T.StringType(), reading_type(shape.element))
    if isinstance(kind, (T.ByteType, T.ShortType)):
        return T.IntegerType()
    if isinstance(kind, (T.DecimalType, T.BinaryType)):
        # Read as a DECIMAL, a number of ten bytes such as 1e999999999 would never end.
        return T.VariantType()
    if isinstance(kind, (T.DateType, T.TimestampType, T.TimestampNTZType)):
        return T.LongType() if shape.epoch else T.StringType()
    return kind


def read(text: Column, fields: tuple[Field, ...]) -> Column:
    """The payload's `from_json`: STRUCT<…, ~corrupt~>. Evaluate it once.

    With options given, Spark prunes no column from it, so that a fault is found whatever is selected.
    """
    schema = T.StructType([T.StructField(f.name, reading_type(f.shape)) for f in fields])
    schema = schema.add(CORRUPT, T.StringType())
    return F.from_json(text, schema, {**JSON_OPTIONS, "columnNameOfCorruptRecord": CORRUPT})


def values_of(json: Column, fields: tuple[Field, ...]) -> list[Column]:
    """Every typed value of `read`'s result, under its column's name."""
    return [value(get(json, f.name), f.shape).alias(f.column) for f in fields]


def reads_of(json: Column, fast: Column, fields: tuple[Field, ...]) -> list[Read]:
    """Every field of `read`'s result, and of the STRUCT of its `values_of`."""
    return [Read(f, get(json, f.name), get(fast, f.column)) for f in fields]


def value(raw: Column, shape: Shape) -> Column:
    """The typed value of what was read; NULL where it cannot be one."""
    kind = shape.data_type
    if shape.fields:
        members = [value(get(raw, f.name), f.shape).alias(f.column) for f in shape.fields]
        return F.when(raw.isNotNull(), F.struct(*members))
    if isinstance(kind, T.ArrayType):
        inner = shape.element
        assert inner is not None
        return raw if _as_read(inner) else F.transform(raw, lambda e: value(e, inner))
    if isinstance(kind, T.MapType):
        held = shape.element
        assert held is not None
        return raw if _as_read(held) else F.transform_values(raw, lambda _, v: value(v, held))
    if isinstance(kind, (T.ByteType, T.ShortType)):
        return raw.try_cast(kind)
    if isinstance(kind, T.DecimalType):
        # By way of its text: a fifth of what it costs to get a decimal out of a variant.
        exact = F.schema_of_variant(raw).isin(_exact_types(kind))
        return F.when(exact, F.to_json(raw).try_cast(kind))
    if isinstance(kind, T.BinaryType):
        base64 = F.try_variant_get(raw, "$", "string")
        return F.when((F.schema_of_variant(raw) == "STRING") & base64.rlike(BASE64), F.unbase64(base64))
    if shape.epoch:
        return instant_of(raw, shape.epoch)
    if type(kind) in _USUAL:
        return F.when(raw.rlike(_USUAL[type(kind)]), raw.try_cast(kind))
    return raw


def instant_of(number: Column, unit: str) -> Column:
    """The TIMESTAMP of a BIGINT since the epoch; NULL outside the years 0001 to 9999."""
    factor = EPOCH_MICROS[unit]
    inside = number.between(-(-FIRST_MICROS // factor), LAST_MICROS // factor)
    return F.timestamp_micros(F.when(inside, number * F.lit(factor)))


def _exact_types(kind: T.DecimalType) -> list[str]:
    """Types of variant numbers that the decimal column holds without rounding."""
    whole = kind.precision - kind.scale
    fitting = [
        f"DECIMAL({p},{s})" for s in range(kind.scale + 1) for p in range(max(1, s), 39) if p - s <= whole
    ]
    return [*fitting, *[f"DECIMAL({p},{s})" for s in range(1, kind.scale + 1) for p in range(1, s)], "BIGINT"]


def _as_read(shape: Shape) -> bool:
    """Whether the value is what was read, without a conversion."""
    kind = shape.data_type
    if shape.fields:
        return all(_as_read(f.shape) and f.name == f.column for f in shape.fields)
    if shape.element is not None:
        return _as_read(shape.element)
    return isinstance(kind, (T.StringType, T.BooleanType, T.IntegerType, T.LongType, *FLOATS))
