"""The shape of a decoded record: a tree of fields, free of Spark sessions and safe to pickle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pyspark.sql import types as T

INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FLOATS = (T.FloatType, T.DoubleType)
DATETIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)


@dataclass(frozen=True)
class Shape:
    """The type of one value. `fields` belong to a STRUCT, `element` to an ARRAY or to a MAP's values.

    `nullable` says whether an element may be null; of a field's own shape it is unused.
    `epoch` is the unit of a number in a TIMESTAMP, `secret` keeps the value, and the keys of a MAP, out of every
    message.
    """

    data_type: T.DataType
    fields: tuple[Field, ...] = ()
    element: Shape | None = None
    nullable: bool = True
    epoch: str | None = None
    secret: bool = False

    @property
    def is_scalar(self) -> bool:
        return not self.fields and self.element is None

    @property
    def hides(self) -> bool:
        """Whether this value is secret or holds a secret one."""
        inner = any(f.shape.hides for f in self.fields)
        return self.secret or inner or (self.element is not None and self.element.hides)

    @property
    def has_map(self) -> bool:
        """Whether this value is a MAP or holds one."""
        inner = any(f.shape.has_map for f in self.fields)
        return (
            isinstance(self.data_type, T.MapType)
            or inner
            or (self.element is not None and self.element.has_map)
        )

    @property
    def expected(self) -> str:
        """What a person reads as the expected type."""
        return self.data_type.simpleString().upper() if self.is_scalar else self._container()

    def place_of(self, key: str) -> str:
        """The place of a MAP's value, as a fault's path has it."""
        return "[…]" if self.secret else f"[{key}]"

    def _container(self) -> str:
        return {"struct": "STRUCT", "array": "ARRAY", "map": "MAP"}[self.data_type.typeName()]


@dataclass(frozen=True)
class Field:
    """One field: its `name` in the payload and its `column` in the table."""

    name: str
    column: str
    shape: Shape
    required: bool = False
    default: str | int | float | bool | None = None
    comment: str | None = field(default=None, compare=False)

    def to_column(self) -> T.StructField:
        metadata = {"comment": self.comment} if self.comment else None
        return T.StructField(self.column, self.shape.data_type, True, metadata)


def secret(shape: Shape) -> Shape:
    """The shape with all that it holds secret."""
    fields = tuple(replace(f, shape=secret(f.shape)) for f in shape.fields)
    element = None if shape.element is None else secret(shape.element)
    return replace(shape, fields=fields, element=element, secret=True)


def walk(fields: tuple[Field, ...], parent: str = "") -> Iterator[tuple[str, Field]]:
    """Every field with its dotted path, parents first."""
    for each in fields:
        path = f"{parent}.{each.name}" if parent else each.name
        yield path, each
        yield from walk(each.shape.fields, path)
        element = each.shape.element
        while element is not None:
            yield from walk(element.fields, path)
            element = element.element


def struct_of(fields: tuple[Field, ...]) -> T.StructType:
    return T.StructType([f.to_column() for f in fields])


def struct_shape(fields: tuple[Field, ...], *, secret: bool = False) -> Shape:
    return Shape(struct_of(fields), fields=fields, secret=secret)


def array_shape(element: Shape, *, secret: bool = False) -> Shape:
    return Shape(T.ArrayType(element.data_type, True), element=element, secret=secret)


def map_shape(value: Shape, *, secret: bool = False) -> Shape:
    return Shape(T.MapType(T.StringType(), value.data_type, True), element=value, secret=secret)
