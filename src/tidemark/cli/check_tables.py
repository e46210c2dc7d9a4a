"""The faults of tables that `tidemark check` finds: the checks of a start, before the tables exist."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidemark.config.destination import TableRef, name_parts
from tidemark.config.reading.faults import Finding, KeyPath
from tidemark.config.stream import Destination, Stream
from tidemark.contract import records
from tidemark.contract.errors import summary_of_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql import types as T


def has_properties(stream: Stream) -> bool:
    landing = stream.landing.destination if stream.landing is not None else None
    return any(d is not None and d.properties for d in (stream.destination, landing))


def table_faults(
    stream: Stream, schema: T.StructType, at: KeyPath, spark: SparkSession | None
) -> Iterator[Finding]:
    """Faults of the decoded table. An enrichment of unknown type counts as text."""
    from pyspark.sql import types as T

    from tidemark.streams.targets import missing_merge_columns

    assert stream.destination is not None
    unknown = [name for name in stream.enrich if name not in schema.names]
    whole = T.StructType([*schema.fields, *(T.StructField(name, T.StringType()) for name in unknown)])
    yield from _destination_faults(stream.destination, whole, (*at, "destination"), spark)
    for key, column in missing_merge_columns(stream, whole.names):
        problem = f"the table has no column {column}"
        yield (*at, "idempotency", key), problem, f"it has {', '.join(whole.names)}"


def landing_faults(stream: Stream, at: KeyPath, spark: SparkSession | None) -> Iterator[Finding]:
    """Faults of the raw table."""
    if stream.landing is None:
        return
    from tidemark.transform.fields import struct_of
    from tidemark.transform.schema_ddl import fields_from_ddl

    schema = struct_of(fields_from_ddl(records.ENVELOPE_DDL))
    here = (*at, "landing", "destination")
    yield from _destination_faults(stream.landing.destination, schema, here, spark)


def _destination_faults(
    destination: Destination, schema: T.StructType, at: KeyPath, spark: SparkSession | None
) -> Iterator[Finding]:
    from tidemark.sink.layout import layout_faults
    from tidemark.sink.properties import forgetful

    faults = list(layout_faults(destination, schema))
    for fault in faults:
        yield ((*at, fault.key) if fault.key else at[:-1]), fault.problem, fault.hint
    for name, why, hint in forgetful(destination.properties):
        yield (*at, "properties", name), why, hint.format(table="the table")
    if spark is not None and destination.properties and not faults:
        yield from _tried(spark, destination, schema, at)


def _tried(
    spark: SparkSession, destination: Destination, schema: T.StructType, at: KeyPath
) -> Iterator[Finding]:
    """The error that Delta raises when it creates the table, in a temporary folder."""
    from tidemark.platform.session import drives_here
    from tidemark.sink.properties import named_in
    from tidemark.sink.table import create

    if not drives_here(spark):
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-check-") as folder:
        try:
            create(spark, TableRef(path=f"{folder}/table"), schema, destination)
        except Exception as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            text = summary_of_error(cause)
            names = named_in(cause, destination)
            if names and "DELTA_UNKNOWN_CONFIGURATION" in text and _in_unity_catalog(destination):
                # Databricks accepts properties that open-source Delta does not.
                known = {n: v for n, v in destination.properties.items() if n not in names}
                yield from _tried(spark, destination.model_copy(update={"properties": known}), schema, at)
                return
            where = ("properties", names[0]) if len(names) == 1 else ("properties",)
            yield (*at, *where), f"Delta refuses it: {text}", "correct or remove it"


def _in_unity_catalog(destination: Destination) -> bool:
    return destination.table is not None and len(name_parts(destination.table)) == 3
