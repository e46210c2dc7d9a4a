"""What becomes of a record, and why, for people who debug: the stream's own code path on single payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Row, SparkSession

from tidemark.contract import records
from tidemark.transform.classify import transform
from tidemark.transform.plan import DecodePlan
from tidemark.transform.registry import SchemaRegistry, with_registered

Payload = bytes | str | None | Mapping[str, Any]
"""A payload's bytes, its text, a tombstone, or an envelope: columns of `ENVELOPE_COLUMNS` by name."""


@dataclass(frozen=True)
class Explained:
    """One record's outcome. `row` is what the table would hold, or None unless accepted."""

    route: str
    code: str | None
    stage: str | None
    message: str | None
    format: str | None
    faults: tuple[dict[str, Any], ...]
    row: dict[str, Any] | None
    unknown_fields: int
    schema_id: int | None


def explain(
    spark: SparkSession,
    records_: Payload | Sequence[Payload],
    plan: DecodePlan,
    *,
    registry: SchemaRegistry | None = None,
) -> list[Explained]:
    """The outcome of each payload, in order. A registry is asked for the schema ids that the plan lacks.

    >>> explain(spark, b'{"id": 1, "qty": "many"}', plan)[0].message  # doctest: +SKIP
    'TYPE_MISMATCH: field qty: expected INT, found "many"'
    """
    single = records_ is None or isinstance(records_, bytes | str | Mapping)
    given: Sequence[Payload] = [records_] if single else records_  # type: ignore[assignment,list-item]
    if not given:
        return []
    found: dict[int, Explained] = {}
    waiting = [(at, _envelope(payload, at)) for at, payload in enumerate(given)]
    while waiting:
        # Two records with the same coordinates, as in two exports of one letter, are told apart by the round.
        order: dict[tuple[Any, ...], int] = {}
        rows, later = [], []
        for at, row in waiting:
            place = row[1:4]
            if place in order:
                later.append((at, row))
            else:
                order[place] = at
                rows.append(row)
        envelopes = spark.createDataFrame(rows, records.ENVELOPE_DDL)
        plan = with_registered(envelopes, plan, registry)
        for out in transform(envelopes, plan).collect():
            found[order[tuple(out[c] for c in records.COORDINATES)]] = _explained(out)
        waiting = later
    return [found[at] for at in range(len(given))]


def _envelope(payload: Payload, at: int) -> tuple[Any, ...]:
    given: dict[str, Any] = {
        records.TOPIC: "explain",
        records.TOPIC_ID: "explain",
        records.PARTITION: 0,
        records.OFFSET: at,
        records.TIMESTAMP_TYPE: "create_time",
    }
    if isinstance(payload, Mapping):
        given.update(payload)
    else:
        given[records.PAYLOAD] = payload
    value = given.get(records.PAYLOAD)
    given[records.PAYLOAD] = value.encode() if isinstance(value, str) else value
    when = given.get(records.TIMESTAMP)
    given[records.TIMESTAMP] = datetime.fromisoformat(when) if isinstance(when, str) else when
    return tuple(given.get(c) for c in records.ENVELOPE_COLUMNS)


def _explained(out: Row) -> Explained:
    failure, row = out[records.FAILURE], out[records.ROW]
    reason: dict[str, Any] = failure.asDict(recursive=True) if failure else {}
    return Explained(
        route=out[records.ROUTE],
        code=reason.get("code"),
        stage=reason.get("stage"),
        message=reason.get("message"),
        format=reason.get("format"),
        faults=tuple(reason.get("faults") or ()),
        row=row.asDict(recursive=True) if row else None,
        unknown_fields=out[records.UNKNOWN_FIELDS],
        schema_id=out["schema_id"],
    )
