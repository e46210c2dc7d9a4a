"""What becomes of a record, and why, for people who debug: the stream's own code path on single payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tidemark.contract import records
from tidemark.contract.errors import UsageError
from tidemark.contract.routes import Route
from tidemark.transform.classify import SCHEMA_ID, no_value, transform
from tidemark.transform.decode.arrow_types import without_zones
from tidemark.transform.decode.decoder import Decoder
from tidemark.transform.plan import DecodePlan
from tidemark.transform.registry import SchemaRegistry, ids_in, widen, with_registered

_PAYLOAD_AT = records.ENVELOPE_COLUMNS.index(records.PAYLOAD)

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
    spark: SparkSession | None,
    records_: Payload | Sequence[Payload],
    plan: DecodePlan,
    *,
    registry: SchemaRegistry | None = None,
    topic: str = "explain",
) -> list[Explained]:
    """The outcome of each payload, in order, as of a record of `topic` unless its envelope names another one.
    Only a plan that `needs_spark` needs a session. A registry is asked for the schema ids that the plan lacks.

    >>> explain(None, b'{"id": 1, "qty": "many"}', plan)[0].message  # doctest: +SKIP
    'TYPE_MISMATCH: field qty: expected INT, found "many"'
    """
    single = records_ is None or isinstance(records_, bytes | str | Mapping)
    given: Sequence[Payload] = [records_] if single else records_  # type: ignore[assignment,list-item]
    rows = [_envelope(payload, at, topic) for at, payload in enumerate(given)]
    if not rows:
        return []
    if not plan.needs_spark:
        plan = widen(plan, ids_in((row[_PAYLOAD_AT] for row in rows), plan), registry)
        return [_explained(out) for out in routed(rows, plan)]
    if spark is None:
        raise UsageError("the stream's rules, COB date, enrichment or decoder need a Spark session")
    found: dict[int, Explained] = {}
    waiting = list(enumerate(rows))
    while waiting:
        # Two records with the same coordinates, as in two exports of one dead letter, are distinguished by the round.
        order: dict[tuple[Any, ...], int] = {}
        now, later = [], []
        for at, row in waiting:
            place = row[1:4]
            if place in order:
                later.append((at, row))
            else:
                order[place] = at
                now.append(row)
        envelopes = spark.createDataFrame(now, records.ENVELOPE_DDL)
        plan = with_registered(envelopes, plan, registry)
        for out in transform(envelopes, plan).collect():
            found[order[tuple(out[c] for c in records.COORDINATES)]] = _explained(out.asDict(recursive=True))
        waiting = later
    return [found[at] for at in range(len(rows))]


def routed(envelopes: Sequence[tuple[Any, ...]], plan: DecodePlan) -> list[dict[str, Any]]:
    """What `transform` makes of these values of `ENVELOPE_COLUMNS`, in this process: for a plan without
    expressions.
    """
    decoded = Decoder(plan).decode(pa.array([e[_PAYLOAD_AT] for e in envelopes], pa.binary()))
    decoded = decoded.cast(without_zones(decoded.type))
    done = []
    for values, found in zip(envelopes, decoded.to_pylist(maps_as_pydicts="strict"), strict=True):
        envelope = dict(zip(records.ENVELOPE_COLUMNS, values, strict=True))
        failure, row, route = found["failure"], None, Route.ACCEPTED
        if envelope[records.PAYLOAD] is None:
            route = Route.SKIPPED if plan.tombstones == "skip" else Route.REJECTED
            failure = no_value(plan) if route is Route.REJECTED else None
        elif failure is not None:
            route = Route.REJECTED
        else:
            made = {**envelope, **found["row"], records.EXTRA: found["extra"] or {}}
            made[records.SOURCE_TOPIC] = envelope[records.TOPIC]
            made[records.PROCESSING_VERSION] = plan.processing_version
            row = {name: made[name] for name in plan.table_schema.names}
        done.append(
            {
                **envelope,
                records.ROUTE: route.value,
                records.FAILURE: failure,
                records.ROW: row,
                records.UNKNOWN_FIELDS: found["unknown"] or 0,
                SCHEMA_ID: found[SCHEMA_ID],
            }
        )
    return done


def _envelope(payload: Payload, at: int, topic: str) -> tuple[Any, ...]:
    given: dict[str, Any] = {
        records.TOPIC: topic,
        records.TOPIC_ID: topic,
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


def _explained(out: Mapping[str, Any]) -> Explained:
    reason = out[records.FAILURE] or {}
    return Explained(
        route=out[records.ROUTE],
        code=reason.get("code"),
        stage=reason.get("stage"),
        message=reason.get("message"),
        format=reason.get("format"),
        faults=tuple(reason.get("faults") or ()),
        row=out[records.ROW],
        unknown_fields=out[records.UNKNOWN_FIELDS],
        schema_id=out[SCHEMA_ID],
    )
