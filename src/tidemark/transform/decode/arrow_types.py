"""Arrow's types of decoded values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from tidemark.transform.fields import Field, Shape

_SCALARS: dict[type[T.DataType], pa.DataType] = {
    T.StringType: pa.string(),
    T.BinaryType: pa.binary(),
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
}


def arrow_type(shape: Shape) -> pa.DataType:
    """The type of a decoded value, as Spark takes it from Arrow."""
    kind = shape.data_type
    if shape.fields:
        return struct_type(shape.fields)
    if isinstance(kind, T.ArrayType):
        assert shape.element is not None
        return pa.list_(arrow_type(shape.element))
    if isinstance(kind, T.MapType):
        assert shape.element is not None
        return pa.map_(pa.string(), arrow_type(shape.element))
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    return _SCALARS[type(kind)]


def without_zones(kind: pa.DataType) -> pa.DataType:
    """The type whose times are those of UTC without saying so, as Spark's `collect` gives them."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, without_zones(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(without_zones(kind.value_type))
    return pa.map_(pa.string(), without_zones(kind.item_type)) if pa.types.is_map(kind) else kind


def struct_type(fields: tuple[Field, ...]) -> pa.StructType:
    """The STRUCT of a decoded row, by the table's column names."""
    return pa.struct([pa.field(f.column, arrow_type(f.shape)) for f in fields])


def offsets_of(column: pa.Array) -> np.ndarray:
    """Where each text or bytes value begins, and the end of the last one, in the column's buffer of values."""
    offsets: np.ndarray = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]
