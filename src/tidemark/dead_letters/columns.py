"""Rows of a DDL schema."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T


def schema_of(ddl: str) -> T.StructType:
    parsed = T.StructType.fromDDL(ddl)
    assert isinstance(parsed, T.StructType)
    return parsed


def columns_of(ddl: str, columns: Mapping[str, Column]) -> list[Column]:
    """The columns of the schema in its order and types, NULL where `columns` has none."""
    return [
        columns.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in schema_of(ddl).fields
    ]
