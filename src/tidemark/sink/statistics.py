"""The columns of a new table that have statistics, by which readers skip files."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import types as T

from tidemark.config.stream import Destination
from tidemark.contract import records
from tidemark.sink.statements import quoted

ALWAYS = (records.PARTITION, records.OFFSET, records.TIMESTAMP)
"""Tidemark itself skips files by these."""
MOST_COLUMNS = 32
"""Delta's default number of leaf columns (`delta.dataSkippingNumIndexedCols`)."""
PROPERTY = "delta.dataSkippingStatsColumns"
_OWN_WAY = (PROPERTY.lower(), "delta.dataskippingnumindexedcols")
_SKIPPED_BY = (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType, T.StringType)

Path = tuple[str, ...]


def can_be_skipped_by(kind: T.DataType) -> bool:
    """Whether Delta keeps the lowest and highest value of such a column."""
    return isinstance(kind, _SKIPPED_BY)


def statistics_property(destination: Destination, schema: T.StructType) -> str | None:
    """The value of `delta.dataSkippingStatsColumns`; None leaves it to Delta, which takes all columns, or to the
    configured properties.
    """
    if destination.statistics is None and any(p.lower() in _OWN_WAY for p in destination.properties):
        return None
    partitions = {c.lower() for c in destination.partition_columns}
    leaves = [(path, kind) for path, kind in _leaves(schema) if path[0].lower() not in partitions]
    if destination.statistics is None and len(leaves) <= MOST_COLUMNS:
        return None
    fitting = [path for path, kind in leaves if can_be_skipped_by(kind)]
    first = [p for c in (*destination.cluster_by, *ALWAYS) for p in fitting if p == _found(schema, (c,))]
    if destination.statistics is None:
        chosen = list(dict.fromkeys([*first, *fitting]))[:MOST_COLUMNS]
    else:
        named = [_written(schema, c) for c in destination.statistics]
        below = [path for name in named if name is not None for path in fitting if path[: len(name)] == name]
        chosen = list(dict.fromkeys([*first, *below]))
    return ",".join(".".join(map(quoted, path)) for path in chosen)


def statistics_faults(destination: Destination, schema: T.StructType) -> Iterator[tuple[str, str]]:
    """Columns of `statistics` that the table cannot have statistics of: problem and hint."""
    partitions = {c.lower() for c in destination.partition_columns}
    for written in destination.statistics or ():
        path = _written(schema, written)
        if path is None:
            yield f"the table has no column {written}", f"it has {', '.join(schema.names)}"
        elif path[0].lower() in partitions:
            yield f"{written} is a partition column, which files are skipped by anyway", "remove it"
        elif not any(can_be_skipped_by(kind) and p[: len(path)] == path for p, kind in _leaves(schema)):
            problem = f"{written} is of a type that Delta keeps no lowest and highest value of"
            yield problem, "name numbers, texts, dates or timestamps"


def _leaves(schema: T.StructType, at: Path = ()) -> Iterator[tuple[Path, T.DataType]]:
    """Each column, or the fields of a STRUCT in its place, as Delta counts them."""
    for field in schema.fields:
        if isinstance(field.dataType, T.StructType):
            yield from _leaves(field.dataType, (*at, field.name))
        else:
            yield (*at, field.name), field.dataType


def _written(schema: T.StructType, name: str) -> Path | None:
    return _found(schema, (name,)) or _found(schema, tuple(name.split(".")))


def _found(schema: T.StructType, written: Path) -> Path | None:
    """The path as the schema spells it, to a column or a STRUCT's field."""
    here: T.DataType = schema
    path: Path = ()
    for part in written:
        if not isinstance(here, T.StructType):
            return None
        field = next((f for f in here.fields if f.name.lower() == part.lower()), None)
        if field is None:
            return None
        path, here = (*path, field.name), field.dataType
    return path
