"""`merge-keys`: records are versions of entities, and a tombstone is an entity's end."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract import records
from tidemark.contract.dead_letters import REPLAYED_FROM
from tidemark.contract.failure_codes import FailureCode
from tidemark.contract.routes import Route
from tidemark.ingest.batch.new_offsets import IS_NEW
from tidemark.sink.merge import DELETES, PLACE
from tidemark.transform.content import headers_or_empty


def with_tombstones(classified: DataFrame, schema: T.StructType, keys: tuple[str, ...]) -> DataFrame:
    """Give skipped tombstones a `row` that names their entity: its keys and coordinates, all else NULL.

    In and out: classified records; `schema` is the table's. The keys are read from the Kafka key: a JSON
    object with a field for each, or the plain text of a single one. A tombstone without all keys is rejected,
    as it does not say what it deletes.
    """
    columns = {f.name: f.dataType for f in schema.fields}
    values = _keys_of(columns, keys)
    known = [values[k].isNotNull() for k in keys]
    named = known[0]
    for one in known[1:]:
        named = named & one
    tombstone = (F.col(records.ROUTE) == Route.SKIPPED.value) & F.col(records.PAYLOAD).isNull()
    row = F.struct(
        *[
            (values[n] if n in values else F.col(n) if n in records.COORDINATES else F.lit(None))
            .cast(t)
            .alias(n)
            for n, t in columns.items()
        ]
    )
    failure = F.struct(
        F.lit(FailureCode.TYPE_MISMATCH.value).alias("code"),
        F.lit("classify").alias("stage"),
        F.lit(f"the key of a tombstone has to name the entity that it deletes, by {', '.join(keys)}").alias(
            "message"
        ),
        F.lit(None).cast("string").alias("format"),
        F.array().alias("faults"),
    ).cast(records.FAILURE_DDL)
    nameless = tombstone & ~named
    return classified.withColumns(
        {
            records.ROW: F.when(tombstone & named, row).otherwise(F.col(records.ROW)),
            records.FAILURE: F.when(nameless, failure).otherwise(F.col(records.FAILURE)),
            records.ROUTE: F.when(nameless, F.lit(Route.REJECTED.value)).otherwise(F.col(records.ROUTE)),
        }
    )


def versions(routed: DataFrame) -> DataFrame:
    """The new versions of a batch for `sink.merge.upsert`. In: classified records with `is_new`.

    A dead letter that was published again has the place of its original record: versions in between are newer.
    """
    route = F.col(records.ROUTE)
    deletes = (route == Route.SKIPPED.value) & F.col(records.ROW).isNotNull()
    wanted = F.col(IS_NEW) & ((route == Route.ACCEPTED.value) | deletes)
    return routed.where(wanted).select(records.ROW, deletes.alias(DELETES), _place().alias(PLACE))


def _place() -> Column:
    headers = headers_or_empty()
    dead_letter = F.try_element_at(F.filter(headers, lambda h: h["name"] == REPLAYED_FROM), F.lit(-1))
    parts = F.split(F.decode(dead_letter["value"], "utf-8"), ":")
    of_this_topic = F.try_element_at(parts, F.lit(1)) == F.col(records.TOPIC_ID)
    partition = F.try_element_at(parts, F.lit(2)).try_cast("int")
    offset = F.try_element_at(parts, F.lit(3)).try_cast("bigint")
    known = of_this_topic & partition.isNotNull() & offset.isNotNull()
    return F.when(known, F.struct(partition.alias("partition"), offset.alias("offset"))).otherwise(
        F.struct(F.col(records.PARTITION).alias("partition"), F.col(records.OFFSET).alias("offset"))
    )


def _keys_of(columns: dict[str, T.DataType], keys: tuple[str, ...]) -> dict[str, Column]:
    text = F.when(F.is_valid_utf8(F.col(records.KEY)), F.col(records.KEY).cast("string"))
    named = T.StructType([T.StructField(k, columns[k]) for k in keys])
    parsed = F.from_json(text, named)
    values = {k: parsed.getField(k) for k in keys}
    if len(keys) == 1:
        (key,) = keys
        plain = F.when(~text.startswith("{"), text.try_cast(columns[key]))
        values[key] = F.coalesce(values[key], plain)
    return values
