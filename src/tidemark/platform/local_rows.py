"""A few rows of this process as a DataFrame, without Python workers.

`createDataFrame` of a list uses Python workers, which need the driver's Python on every machine, and time to
start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T


def rows_of(spark: SparkSession, rows: Sequence[Iterable[Any]], ddl: str) -> DataFrame:
    """Rows whose values are in the order of `ddl`; structs as tuples, maps as dictionaries.

    Without pyarrow, by Spark's own `createDataFrame`.
    """
    schema = _schema(ddl)
    try:
        import pyarrow as pa
    except ImportError:
        return spark.createDataFrame([tuple(row) for row in rows], schema)
    plain = [_plain(row, schema) for row in rows]
    columns = [(f.name, _arrow_type(f.dataType)) for f in schema.fields]
    return spark.createDataFrame(pa.Table.from_pylist(plain, schema=pa.schema(columns)), schema)


@lru_cache(maxsize=32)
def _schema(ddl: str) -> T.StructType:
    """Parsed once: the parser is Spark's, in the JVM or a server."""
    from pyspark.sql import types as T

    schema = T.StructType.fromDDL(ddl)
    assert isinstance(schema, T.StructType)
    return schema


def no_rows(spark: SparkSession, schema: T.StructType) -> DataFrame:
    """An empty DataFrame with these columns."""
    from pyspark.sql import functions as F

    return spark.range(0).select(*[F.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields])


def _plain(value: Any, kind: T.DataType) -> Any:
    from pyspark.sql import types as T

    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return {f.name: _plain(v, f.dataType) for f, v in zip(kind.fields, value, strict=True)}
    if isinstance(kind, T.ArrayType):
        return [_plain(v, kind.elementType) for v in value]
    if isinstance(kind, T.MapType):
        return [(k, _plain(v, kind.valueType)) for k, v in value.items()]
    return bytes(value) if isinstance(kind, T.BinaryType) else value


def _arrow_type(kind: T.DataType) -> Any:
    import pyarrow as pa
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        return pa.struct([(f.name, _arrow_type(f.dataType)) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return pa.list_(_arrow_type(kind.elementType))
    if isinstance(kind, T.MapType):
        return pa.map_(_arrow_type(kind.keyType), _arrow_type(kind.valueType))
    simple = {
        T.StringType: pa.string(),
        T.BinaryType: pa.binary(),
        T.BooleanType: pa.bool_(),
        T.IntegerType: pa.int32(),
        T.LongType: pa.int64(),
        T.DoubleType: pa.float64(),
        T.TimestampType: pa.timestamp("us", tz="UTC"),
    }
    return simple[type(kind)]
