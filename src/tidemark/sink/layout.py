"""The columns that a new table cannot be partitioned or clustered by, with hints.

Used at the start and by `tidemark check`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import types as T

from tidemark.config.stream import Destination
from tidemark.contract import records
from tidemark.sink.statistics import can_be_skipped_by, statistics_faults

MOMENT = (
    "is a TIMESTAMP, which Delta keeps as text without a zone: whoever uses the table under another time zone"
    " sees other moments"
)
BY_DATE = (
    "partition by the date instead: enrich: {day: to_date(the_column)} and partition-columns: [day];"
    " a table that is there already is taken as it is, so create it by hand to have it so all the same"
)
_CHANGE_DATA_FEED = "delta.enablechangedatafeed"
_CHANGE_DATA_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
_COLUMN_MAPPING = "delta.columnmapping.mode"
_INVALID_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")


@dataclass(frozen=True)
class LayoutFault:
    """`key` is a key of the destination; empty where the columns themselves are wrong."""

    key: str
    problem: str
    hint: str


def column_in(schema: T.StructType, name: str) -> str | None:
    """The column as the schema spells it, whatever its letter case in the configuration."""
    return next((f.name for f in schema.fields if f.name.lower() == name.lower()), None)


def layout_faults(destination: Destination, schema: T.StructType) -> Iterator[LayoutFault]:
    """Layouts that Delta, or a reader of the table, does not support."""
    raw = records.PAYLOAD in schema.names
    named = (("partition-columns", destination.partition_columns), ("cluster-by", destination.cluster_by))
    for key, columns in named:
        for written in columns:
            column = column_in(schema, written)
            if column is None:
                hint = f"it has {', '.join(schema.names)}"
                yield LayoutFault(key, f"the table has no column {written}", hint)
                continue
            kind = schema[column].dataType
            wrong = _not_partition(kind, raw=raw) if key == "partition-columns" else _not_clustering(kind)
            if wrong is not None:
                yield LayoutFault(key, f"{column} {wrong[0]}", wrong[1])
    yield from (LayoutFault("statistics", *found) for found in statistics_faults(destination, schema))
    yield from _column_faults(schema, {k.lower(): v.lower() for k, v in destination.properties.items()})


def _not_partition(kind: T.DataType, *, raw: bool) -> tuple[str, str] | None:
    if isinstance(kind, T.TimestampType):
        return MOMENT, BY_DATE
    if raw and isinstance(kind, T.BinaryType):
        problem = "is BINARY: bytes that are not text would not come back, and a raw table rejects no record"
        return problem, "partition by stream_partition, or not at all"
    if isinstance(kind, (T.StructType, T.ArrayType, T.MapType, T.VariantType, T.NullType)):
        problem = f"is {kind.simpleString().upper()}, which no folder can be named by"
        return problem, "partition by a single value of it: enrich: {part: the_column.the_field}"
    return None


def _not_clustering(kind: T.DataType) -> tuple[str, str] | None:
    if can_be_skipped_by(kind):
        return None
    problem = f"is {kind.simpleString().upper()}, which Delta cannot cluster by"
    return problem, "cluster by numbers, texts, dates or timestamps"


def _column_faults(schema: T.StructType, properties: Mapping[str, str]) -> Iterator[LayoutFault]:
    doubled = [name for name, count in Counter(n.lower() for n in schema.names).items() if count > 1]
    if doubled:
        yield LayoutFault("", f"the table would have two columns named {', '.join(doubled)}", "rename one")
    if properties.get(_CHANGE_DATA_FEED) == "true":
        taken = [n for n in schema.names if n.lower() in _CHANGE_DATA_COLUMNS]
        if taken:
            problem = f"{', '.join(taken)} is a column that the change data feed adds itself"
            hint = "give it another name, fields.<name>.column, or remove delta.enableChangeDataFeed"
            yield LayoutFault("properties", problem, hint)
    if properties.get(_COLUMN_MAPPING, "none") == "none":
        for name in _names_in(schema):
            if _INVALID_IN_NAMES.search(name):
                problem = (
                    f"a column cannot be named `{name}`: Delta takes no blanks and none of , ; {{ }} ( ) ="
                )
                yield LayoutFault("", problem, "give it another name, fields.<name>.column")


def _names_in(kind: T.DataType) -> Iterator[str]:
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            yield field.name
            yield from _names_in(field.dataType)
    elif isinstance(kind, T.ArrayType):
        yield from _names_in(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _names_in(kind.keyType)
        yield from _names_in(kind.valueType)
