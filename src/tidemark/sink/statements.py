"""Delta's statements as Spark's own SQL and MERGE: its Python API needs a plugin in a Spark Connect server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import Column, DataFrame, DataFrameWriter
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.platform.commit_lock import commit_lock

if TYPE_CHECKING:
    from pyspark.sql.merge import MergeIntoWriter

Ranges: TypeAlias = Mapping[int, tuple[int, int]]
"""Offsets [start, end) of each partition."""


def save_into(writer: DataFrameWriter, table: TableRef, *, lock_s: float | None = None) -> None:
    """Append under the table's `commit_lock`, waited for as long."""
    with commit_lock(table, within=lock_s):
        if table.path is None:
            writer.saveAsTable(table.sql)
        else:
            writer.save(table.path)


def merge_into(rows: DataFrame, table: TableRef, condition: Column) -> MergeIntoWriter:
    """A MERGE of `rows`, with columns `s.…`, into the table, with the columns of `column_of`.

    Its `whenMatched`, `whenNotMatched` and `merge` are those of Spark's `DataFrame.mergeInto`.
    """
    return rows.alias("s").mergeInto(table.sql, condition)


def commit_merge(merge: MergeIntoWriter, table: TableRef) -> None:
    """Run a MERGE under the table's `commit_lock`."""
    with commit_lock(table):
        merge.merge()


def column_of(table: TableRef, name: str) -> Column:
    """A column of a MERGE's target, which has no alias."""
    return F.col(f"{table.sql}.{quoted(name)}")


def within(topic_id: str, ranges: Ranges, *, of: str = "t") -> Column:
    """Literal bounds on the coordinates of the table `of`, by which Delta leaves files out."""
    return (F.col(f"{of}.{records.TOPIC_ID}") == topic_id) & in_ranges(ranges, of=of)


def in_ranges(ranges: Ranges, *, of: str | None = None) -> Column:
    """Literal bounds on partition and offset."""
    partition, offset = (F.col(c if of is None else f"{of}.{c}") for c in (records.PARTITION, records.OFFSET))
    return any_of(
        [(partition == p) & (offset >= start) & (offset < end) for p, (start, end) in ranges.items()]
    )


def any_of(conditions: Sequence[Column]) -> Column:
    """Whether one condition holds. In halves: a chain of thousands would nest too deep for the analyser."""
    if len(conditions) < 2:
        return conditions[0] if conditions else F.lit(False)
    middle = len(conditions) // 2
    return any_of(conditions[:middle]) | any_of(conditions[middle:])


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
    ddl = f"{quoted(field.name)}{separator}{_type(field.dataType)}"
    if not field.nullable:
        ddl += " NOT NULL"
    comment = (field.metadata or {}).get("comment")
    return f"{ddl} COMMENT {_text(comment)}" if comment else ddl


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
