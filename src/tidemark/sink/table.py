"""The table of a stream: created when absent, checked when present."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract.errors import LedgerError, SchemaConflict, summary_of_error
from tidemark.platform.commit_lock import commit_lock
from tidemark.sink.damaged_log import log_readable
from tidemark.sink.layout import column_in, layout_faults
from tidemark.sink.properties import forgetful, properties_of, refused
from tidemark.sink.statements import create_statement, quoted

_LOOKS = 20
_BETWEEN_LOOKS_S = 0.25
_ABSENT_PLACES = (
    *("SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "NO_SUCH_CATALOG_EXCEPTION"),
    "REQUIRES_SINGLE_PART_NAMESPACE",
)
"""Conditions of a name whose catalog or schema is not there."""


@dataclass(frozen=True)
class TableInfo:
    """DESCRIBE DETAIL: identity, location, schema, properties, and the number of data files."""

    id: str
    schema: T.StructType
    partition_columns: tuple[str, ...]
    properties: dict[str, str]
    files: int
    location: str = ""


@log_readable()
def describe(spark: SparkSession, table: TableRef) -> TableInfo | None:
    """The table, or None where there is none. Raises LedgerError where something else is there, or a log that
    cannot be read.
    """
    try:
        (row,) = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()
        schema = spark.table(table.sql).schema
    except AnalysisException as error:
        if _is_absent(error):
            _refuse_foreign_files(table)
            return None
        _refuse_absent_place(table, error)
        raise
    if row["format"] != "delta":
        raise LedgerError(f"{table} is not a Delta table", "choose another destination")
    properties = dict(row["properties"] or {})
    return TableInfo(
        row["id"],
        schema,
        tuple(row["partitionColumns"]),
        properties,
        row["numFiles"],
        row["location"] or "",
    )


def create(
    spark: SparkSession,
    table: TableRef,
    schema: T.StructType,
    destination: Destination,
    *,
    sleep: Callable[[float], object] = time.sleep,
) -> TableInfo:
    """Create the table if absent; where another writer is creating it, the table is that one's.

    Raises SchemaConflict for columns that Delta cannot partition or cluster by, ConfigError for properties that
    Delta refuses, LedgerError where the catalog or the schema is absent.
    """
    wrong = list(layout_faults(destination, schema))
    if wrong:
        listed = "\n".join(f"- {f'destination.{f.key}: ' if f.key else ''}{f.problem}" for f in wrong)
        raise SchemaConflict(f"{table} cannot be created:\n{listed}", wrong[0].hint)
    statement = create_statement(
        table,
        schema,
        partitioned_by=_spelled(destination.partition_columns, schema),
        clustered_by=_spelled(destination.cluster_by, schema),
        properties=properties_of(destination, schema),
    )
    try:
        spark.sql(statement)
    except Exception as error:
        properties = refused(error, destination)
        if properties is not None:
            raise properties from error
        _refuse_absent_place(table, error)
        # The ledger decides whose table it is.
        if not isinstance(error, AnalysisException) or not _made_by_another(spark, table, error, sleep):
            raise
    # Spark takes a log folder without a commit for a table: another writer is creating it.
    for _ in range(_LOOKS):
        if (info := describe(spark, table)) is not None:
            return info
        sleep(_BETWEEN_LOOKS_S)
    raise LedgerError(
        f"{table} has a log folder without a commit: another writer began to create it and stopped",
        f"remove the folder _delta_log of {table} and start again",
    )


def check_properties(table: TableRef, info: TableInfo) -> None:
    """Raises LedgerError for properties under which Delta forgets parts of the ledger while they are needed."""
    for name, why, hint in forgetful(info.properties):
        raise LedgerError(
            f"{table} has {name} = {info.properties[name]}: {why}", hint.format(table=table.sql)
        )


def check_schema(
    spark: SparkSession, table: TableRef, info: TableInfo, wanted: T.StructType, *, evolve: bool
) -> None:
    """Compare the table's columns with the stream's; with `evolve` add those that are new and nullable.

    Raises SchemaConflict with the exact difference for anything else.
    """
    there = {f.name.lower(): f for f in info.schema.fields}
    new = [f for f in wanted.fields if f.name.lower() not in there]
    changed = [
        f"{f.name}: {there[f.name.lower()].dataType.simpleString()} in the table,"
        f" {f.dataType.simpleString()} in the stream"
        for f in wanted.fields
        if f.name.lower() in there and not _same_type(there[f.name.lower()].dataType, f.dataType)
    ]
    required = {f.name.lower() for f in info.schema.fields if not f.nullable}
    changed += [
        f"{name}: NOT NULL in the table, not in the stream"
        for name in sorted(required - {f.name.lower() for f in wanted.fields})
    ]
    if new and not evolve:
        changed += [f"{f.name} {f.dataType.simpleString()}: in the stream only" for f in new]
    if changed:
        raise SchemaConflict(
            f"{table} and the stream differ:\n" + "\n".join(f"- {line}" for line in changed),
            "schema-evolution: add-columns adds new nullable columns; anything else needs a new table or"
            " a migration of this one",
        )
    if new:
        columns = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in new)
        with commit_lock(table):
            spark.sql(f"ALTER TABLE {table.sql} ADD COLUMNS ({columns})")


def _spelled(columns: tuple[str, ...], schema: T.StructType) -> list[str]:
    return [column_in(schema, column) or column for column in columns]


def _same_type(one: T.DataType, other: T.DataType) -> bool:
    return one.simpleString().lower() == other.simpleString().lower()


def _made_by_another(
    spark: SparkSession, table: TableRef, error: AnalysisException, sleep: Callable[[float], object]
) -> bool:
    # A log folder without a commit: another writer is creating the table.
    in_creation = any(name in str(error) for name in ("NON_EMPTY_LOCATION", "DELTA_TABLE_NOT_FOUND"))
    for _ in range(_LOOKS if in_creation else 0):
        if describe(spark, table) is not None:
            return True
        sleep(_BETWEEN_LOOKS_S)
    return describe(spark, table) is not None


def _is_absent(error: AnalysisException) -> bool:
    condition = error.getCondition() or ""
    text = str(error)
    return any(
        name in condition or name in text
        for name in (
            "TABLE_OR_VIEW_NOT_FOUND",
            "DELTA_MISSING_DELTA_TABLE",
            "DELTA_PATH_DOES_NOT_EXIST",
            "DELTA_TABLE_NOT_FOUND",
            "PATH_NOT_FOUND",
            "DELTA_MISSING_TRANSACTION_LOG",
            "NOT_A_DELTA_TABLE",
            "is not a Delta table",
            "doesn't exist",
        )
    )


def _refuse_absent_place(table: TableRef, error: Exception) -> None:
    if isinstance(error, AnalysisException) and error.getCondition() in _ABSENT_PLACES:
        raise LedgerError(
            f"there is no place for {table}: {summary_of_error(error)}",
            "create its schema first, with the rights to use it and to create tables in it (docs/deploy.md);"
            " or correct destination.table",
        ) from error


def _refuse_foreign_files(table: TableRef) -> None:
    if not table.is_local or table.path is None:
        return
    from pathlib import Path

    folder = Path(table.path.removeprefix("file://").removeprefix("file:"))
    if folder.is_file():
        raise LedgerError(f"{folder} is a file, not the folder of a table", "choose another destination")
    if folder.is_dir() and any(not p.name.startswith(("_", ".")) for p in folder.iterdir()):
        raise LedgerError(
            f"{folder} holds files, but no Delta table", "choose an empty folder, or convert what is there"
        )
