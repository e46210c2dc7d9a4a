"""The rows that a stream's table accepts: its partition columns and constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.sink.statements import quoted
from tidemark.sink.table import TableInfo, describe
from tidemark.streams.target import Target
from tidemark.transform import DecodePlan
from tidemark.transform.expressions import type_of, unstable, unstable_as_analysed
from tidemark.transform.limits import Constraint, TableLimits, is_dotless, named_by_value, room_at

log = structlog.get_logger(__name__)

_CHECK = "delta.constraints."
_CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


def within_its_table(spark: SparkSession, target: Target, info: TableInfo | None = None) -> Target:
    """The target with the limits of its table, so that records that break them are rejected, not their batch.

    An absent table has the limits of its configuration.
    """
    info = info if info is not None else describe(spark, target.table)
    if target.decode is None or info is None:
        return target
    return replace(target, decode=replace(target.decode, limits=limits_of(spark, target.decode, info)))


def limits_of(spark: SparkSession, decode: DecodePlan, info: TableInfo) -> TableLimits:
    """Constraints that cannot be evaluated for one record by itself are left to Delta, with a warning."""
    return TableLimits(
        partitions=named_by_value(info.partition_columns, decode.table_schema),
        folders=not _has_random_folders(info.properties),
        room=room_at(info.location),
        dotless=is_dotless(info.location),
        constraints=tuple(_judged(spark, decode.table_schema, info)),
    )


def _has_random_folders(properties: Mapping[str, str]) -> bool:
    known = {name.lower(): value.lower() for name, value in properties.items()}
    mapped = known.get("delta.columnmapping.mode", "none") != "none"
    return mapped or known.get("delta.randomizefileprefixes") == "true"


def _checks(properties: Mapping[str, str]) -> Iterator[Constraint]:
    for name, expression in sorted(properties.items()):
        if name.startswith(_CHECK):
            yield Constraint(f"CHECK constraint {name.removeprefix(_CHECK)}", expression)


def _types(schema: T.StructType, at: tuple[str, ...] = ()) -> Iterator[Constraint]:
    """NOT NULL, CHAR and VARCHAR, of fields of a STRUCT too."""
    for field in schema.fields:
        path = (*at, field.name)
        name = ".".join(map(quoted, path))
        if not field.nullable:
            yield Constraint(f"NOT NULL of {'.'.join(path)}", f"{name} IS NOT NULL")
        kind, _, length = str(field.metadata.get(_CHAR_TYPE, "")).rstrip(")").partition("(")
        if kind in ("char", "varchar"):
            limit = f"{name} IS NULL OR length({name}) <= {int(length)}"
            yield Constraint(f"{kind.upper()}({length}) of {'.'.join(path)}", limit)
        if isinstance(field.dataType, T.StructType):
            yield from _types(field.dataType, path)


def _judged(spark: SparkSession, schema: T.StructType, info: TableInfo) -> Iterator[Constraint]:
    constraints = [*_checks(info.properties), *_types(info.schema)]
    if not constraints:
        return
    empty = spark.createDataFrame([], schema)
    names = frozenset(name.lower() for name in schema.names)
    left: dict[str, str] = {}
    for constraint in constraints:
        kind, problem = type_of(constraint.expression, empty)
        why = unstable(constraint.expression, names)
        if why or not isinstance(kind, T.BooleanType):
            left[constraint.name] = "; ".join(why) or problem or "not a condition"
    judged = {c.name: c.expression for c in constraints if c.name not in left}
    left |= unstable_as_analysed(judged, empty) if judged else {}
    for constraint in constraints:
        if constraint.name not in left:
            yield constraint
            continue
        log.warning(
            "a constraint of the table cannot be judged record by record: a violation stops the stream",
            table=info.location,
            constraint=constraint.name,
            expression=constraint.expression,
            why=left[constraint.name],
        )
