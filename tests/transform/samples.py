"""Streams, envelopes and plain values for the tests of the decode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as T

from tidemark.config.stream import Stream
from tidemark.contract import records
from tidemark.transform import DecodePlan, decode_plan, transform
from tidemark.transform.decode.udf import FAILURE_TYPE
from tidemark.transform.explain import routed

SENT_AT = datetime(2024, 7, 1, 12, tzinfo=UTC)


def plan_of(spark: SparkSession, folder: Path, ddl: str | None = None, **options: Any) -> DecodePlan:
    """The plan of a stream with this schema; options are keys of the stream, kebab-case as `a_b`."""
    body: dict[str, Any] = {"kafka-topic": "orders", **{k.replace("_", "-"): v for k, v in options.items()}}
    if ddl is not None:
        body["schema"] = {"ddl": ddl}
    body["schema_"] = body.pop("schema")
    return decode_plan(Stream.model_validate(body), base_dir=folder, spark=spark)


def envelope_values(payloads: Iterable[bytes | None], **columns: Any) -> list[tuple[Any, ...]]:
    """Values of `ENVELOPE_COLUMNS`."""
    base = {
        records.TOPIC: "orders",
        records.TOPIC_ID: "topic-1",
        records.PARTITION: 0,
        records.TIMESTAMP: SENT_AT,
        records.TIMESTAMP_TYPE: "create_time",
        **columns,
    }
    return [
        tuple({**base, records.OFFSET: at, records.PAYLOAD: payload}.get(c) for c in records.ENVELOPE_COLUMNS)
        for at, payload in enumerate(payloads)
    ]


def envelopes(spark: SparkSession, payloads: Iterable[bytes | None], **columns: Any) -> DataFrame:
    return spark.createDataFrame(envelope_values(payloads, **columns), records.ENVELOPE_DDL)


def outcomes(
    spark: SparkSession, payloads: list[bytes | None], plan: DecodePlan, **columns: Any
) -> list[Any]:
    """Rows of `transform`, in the order of the payloads; without Spark where the plan has no use for it."""
    if not plan.needs_spark:
        kinds = {records.FAILURE: FAILURE_TYPE, records.ROW: plan.table_schema}
        return [
            Row(**{name: _collected(value, kinds.get(name)) for name, value in found.items()})
            for found in routed(envelope_values(payloads, **columns), plan)
        ]
    found = transform(envelopes(spark, payloads, **columns), plan).collect()
    return sorted(found, key=lambda row: row[records.OFFSET])


def _collected(value: Any, kind: T.DataType | None) -> Any:
    """A value as `collect` gives it: Rows, and times without a zone."""
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        return Row(**{f.name: _collected(value[f.name], f.dataType) for f in kind.fields})
    if isinstance(kind, T.ArrayType):
        return [_collected(each, kind.elementType) for each in value]
    if isinstance(kind, T.MapType):
        return {key: _collected(each, kind.valueType) for key, each in value.items()}
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def code(row: Any) -> str | None:
    """The failure code, or None for a record that was not rejected."""
    return row.failure.code if row.failure is not None else None


def plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat(timespec='seconds')}Z"
    if hasattr(value, "asDict"):
        return {k: plain(v) for k, v in value.asDict().items()}
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def decoded(row: Any, plan: DecodePlan) -> dict[str, Any] | None:
    """The decoded columns of an accepted record under the schema's own names."""
    if row.row is None:
        return None
    columns = plain(row.row)
    found = {f.name: columns[f.column] for f in plan.fields}
    return {**found, **({"_extra": columns["_extra"]} if "_extra" in columns else {})}


def write_schema(folder: Path, name: str, schema: Any) -> str:
    (folder / name).write_text(json.dumps(schema), encoding="utf-8")
    return name
