"""Delta's statements, in Spark's own words: its Python API needs a plugin in a server of Spark Connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.config.destination import TableRef


def merge_into(rows: DataFrame, table: TableRef, condition: Column) -> Any:
    """A MERGE of `rows`, whose columns are `s.…`, into the table, whose columns `column_of` names.

    Its `whenMatched`, `whenNotMatched` and `merge` are those of Spark's `DataFrame.mergeInto`.
    """
    return rows.alias("s").mergeInto(table.sql, condition)


def column_of(table: TableRef, name: str) -> Column:
    """A column of a MERGE's target, which has no alias."""
    return F.col(f"{table.sql}.{quoted(name)}")


def create_statement(
    table: TableRef,
    schema: T.StructType,
    *,
    partitioned_by: Sequence[str] = (),
    clustered_by: Sequence[str] = (),
    properties: Mapping[str, str],
) -> str:
    """CREATE TABLE IF NOT EXISTS, with NOT NULL and comments at every depth."""
    parts = [f"CREATE TABLE IF NOT EXISTS {table.sql} ({columns_ddl(schema)}) USING DELTA"]
    for words, columns in (("PARTITIONED BY", partitioned_by), ("CLUSTER BY", clustered_by)):
        if columns:
            parts.append(f"{words} ({', '.join(map(quoted, columns))})")
    pairs = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in properties.items())
    return " ".join([*parts, f"TBLPROPERTIES ({pairs})"])


def columns_ddl(schema: T.StructType) -> str:
    return ", ".join(_field(f, separator=" ") for f in schema.fields)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _field(field: T.StructField, *, separator: str) -> str:
    told = f"{quoted(field.name)}{separator}{_type(field.dataType)}"
    if not field.nullable:
        told += " NOT NULL"
    comment = (field.metadata or {}).get("comment")
    return f"{told} COMMENT {_text(comment)}" if comment else told


def _type(kind: T.DataType) -> str:
    if isinstance(kind, T.StructType):
        return f"STRUCT<{', '.join(_field(f, separator=': ') for f in kind.fields)}>"
    if isinstance(kind, T.ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString()


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
