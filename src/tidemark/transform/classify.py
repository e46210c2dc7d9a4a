"""The way of a record's bytes to its route: decode, validate, enrich, classify.

Each step is one `select`, so that what the next one uses several times is computed once.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.contract.routes import Route
from tidemark.transform.decode.decoder import format_without_text
from tidemark.transform.decode.outcome import failure_of, rejected
from tidemark.transform.decode.udf import DECODED, decoded
from tidemark.transform.fitting import FORMAT, fitted
from tidemark.transform.plan import DecodePlan
from tidemark.transform.validate import (
    FAULTS,
    checked_enrichment,
    checked_rule,
    cob_date,
    cob_in_future,
    cob_unparsable,
    failure_of_faults,
)

SCHEMA_ID = "schema_id"
_VIOLATIONS = "_violations"


def transform(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    """Records with their route. Works on batch and streaming frames, classic and Connect.

    In: `ENVELOPE_COLUMNS`. Out: the same columns untouched, then `route`, `failure` (NULL unless
    rejected), `row` (STRUCT of `plan.table_schema`, NULL unless accepted), `unknown_fields` and
    `schema_id` (of a framed payload). Never raises for what a record holds.
    """
    frame = decoded(envelopes, plan)
    if plan.cob is not None or plan.rules or plan.enriched:
        frame = _validate(frame, plan)
    classified = _classify(frame, plan)
    return fitted(classified, plan.limits) if plan.limits.any else classified


def _of(name: str) -> Column:
    return F.col(DECODED).getField(name)


def _validate(frame: DataFrame, plan: DecodePlan) -> DataFrame:
    """`_violations`, NULL where there is none, and the COB date; only of records that decoded.

    Expressions name columns of the row and of the envelope: these are unpacked.
    """
    sound = F.col(records.PAYLOAD).isNotNull() & _of("failure").isNull()
    checks: list[Column] = []
    frame = frame.select("*", f"{DECODED}.row.*", f"{DECODED}.{SCHEMA_ID}")
    if plan.cob is not None:
        source = plan.cob_field
        if source is not None:
            checks.append(cob_unparsable(source, plan.cob))
            frame = frame.withColumn(plan.cob.column, F.when(sound, cob_date(source, plan.cob)))
        if plan.cob.not_in_future:
            checks.append(cob_in_future(plan.cob))
    checks += [checked_rule(rule) for rule in plan.rules]
    checks += [checked_enrichment(name, expression) for name, expression, _ in plan.enriched]
    if not checks:
        return frame.withColumn(_VIOLATIONS, F.lit(None).cast(FAULTS))
    guarded = [F.when(sound, check).alias(f"_check{at}") for at, check in enumerate(checks)]
    found = [F.col(f"_check{at}") for at in range(len(guarded))]
    kept = [F.col(f"`{c}`") for c in frame.columns]
    some = F.when(F.coalesce(*found).isNotNull(), F.array_compact(F.array(*found)))
    return frame.select(*kept, *guarded).select(*kept, some.alias(_VIOLATIONS))


def _classify(frame: DataFrame, plan: DecodePlan) -> DataFrame:
    """The route, and what goes with it."""
    tombstone = F.col(records.PAYLOAD).isNull()
    failure, wrong = _of("failure"), _of("failure").isNotNull()
    if _VIOLATIONS in frame.columns:
        violated = F.col(_VIOLATIONS).isNotNull()
        failure = F.when(violated, failure_of_faults(F.col(_VIOLATIONS), _of("format"))).otherwise(failure)
        wrong = wrong | violated
    for_tombstone = Route.SKIPPED
    if plan.tombstones != "skip":
        for_tombstone = Route.REJECTED
        absent = F.from_json(F.lit(json.dumps(no_value(plan))), records.FAILURE_DDL)
        failure = F.when(tombstone, absent).otherwise(failure)
    route = (
        F.when(tombstone, F.lit(for_tombstone.value))
        .when(wrong, F.lit(Route.REJECTED.value))
        .otherwise(F.lit(Route.ACCEPTED.value))
    )
    return frame.select(
        *records.ENVELOPE_COLUMNS,
        route.alias(records.ROUTE),
        failure.alias(records.FAILURE),
        F.when(~tombstone & ~wrong, F.struct(*_row(plan))).alias(records.ROW),
        F.coalesce(_of("unknown"), F.lit(0)).alias(records.UNKNOWN_FIELDS),
        _of(SCHEMA_ID).alias(SCHEMA_ID),
        *([_of("format").alias(FORMAT)] if plan.limits.any else []),
    )


def no_value(plan: DecodePlan) -> dict[str, Any]:
    """The failure of a tombstone where each record is to have a value."""
    return failure_of(rejected(Code.EMPTY_PAYLOAD, "a value"), format_without_text(plan.formats))


def _row(plan: DecodePlan) -> list[Column]:
    nothing = F.map_from_arrays(F.array().cast("array<string>"), F.array().cast("array<string>"))
    made = {records.EXTRA: F.coalesce(_of("extra"), nothing)}
    made |= {f.column: _of("row").getField(f.column) for f in plan.fields}
    made |= {name: F.col(name) for name in records.ADDED_COLUMNS if name in records.ENVELOPE_COLUMNS}
    made |= {name: F.expr(expression) for name, expression, _ in plan.enriched}
    made[records.SOURCE_TOPIC] = F.col(records.TOPIC)
    made[records.PROCESSING_VERSION] = F.lit(plan.processing_version)
    return [
        made.get(c.name, F.col(f"`{c.name}`")).cast(c.dataType).alias(c.name)
        for c in plan.table_schema.fields
    ]
