"""The way of a record's bytes to its route: decode, validate, enrich, classify. Pure Columns.

Each step is one `select`, so that what the next one uses several times is computed once: Spark does not
merge projections whose expensive parts are used more than once.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.config.decoding import Format
from tidemark.contract import records
from tidemark.contract.routes import Route
from tidemark.transform.decode import json_fast
from tidemark.transform.decode.avro import schema_id
from tidemark.transform.decode.decoders import decoder_named
from tidemark.transform.decode.detect import format_of
from tidemark.transform.decode.expressions import compiled_apart, get
from tidemark.transform.decode.json_tree import field_of
from tidemark.transform.decode.payload import UNWRAPPED, decode_payload, payload_of, text_of
from tidemark.transform.failure import failure_of
from tidemark.transform.plan import DecodePlan
from tidemark.transform.validate import (
    VIOLATION,
    checked_enrichment,
    checked_rule,
    cob_date,
    cob_in_future,
    cob_unparsable,
)

SCHEMA_ID = "schema_id"


def transform(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    """Records with their route. Works on batch and streaming frames, classic and Connect.

    In: `ENVELOPE_COLUMNS`. Out: the same columns untouched, then `route`, `failure` (NULL unless
    rejected), `row` (STRUCT of `plan.table_schema`, NULL unless accepted), `unknown_fields` and
    `schema_id` (of a framed payload). Never raises for what a record holds.
    """
    opened = _open(envelopes, plan)
    read = _read_json(opened, plan) if Format.JSON in plan.formats else opened
    decoded = _decode(read, plan)
    checked = _validate(decoded, plan)
    return _classify(checked, plan)


def _envelope() -> list[Column]:
    return [F.col(name) for name in records.ENVELOPE_COLUMNS]


def _open(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    """Takes the frame off and finds the format.

    The payload's text is an expression, not a column: a column more of the payload's size would be
    copied from step to step.
    """
    if plan.decoder:
        inside = decoder_named(plan.decoder)(F.col(records.PAYLOAD)).cast("binary")
        envelopes = envelopes.select(*_envelope(), inside.alias(UNWRAPPED))
    identity = schema_id(payload_of(plan)) if plan.framed else F.lit(None).cast("bigint")
    framed = envelopes.select("*", identity.alias(SCHEMA_ID))
    return framed.select("*", format_of(text_of(plan), plan.formats, plan.csv).alias("_format"))


def _read_json(opened: DataFrame, plan: DecodePlan) -> DataFrame:
    """The fast lane: `_v0`, `_v1`, …, `_good` (values right), `_accounted` (nothing else is there)."""
    text, fields = text_of(plan), plan.fields
    read = json_fast.read(text, fields)
    if len(plan.formats) > 1:
        read = F.when(F.col("_format") == Format.JSON.value, read)
    parsed = opened.select("*", read.alias("_json"))
    raw = [get(F.col("_json"), f.name) for f in fields]
    whole = json_fast.parsed_whole(text, F.col("_json"))
    typed = parsed.select(
        "*",
        *[
            json_fast.value(r, f.shape).alias(f"_v{i}")
            for i, (r, f) in enumerate(zip(raw, fields, strict=True))
        ],
        (whole & compiled_apart(F.col("_json").isNotNull())).alias("_whole"),
        text.alias("_text"),
    )
    triples = [(r, F.col(f"_v{i}"), f.shape) for i, (r, f) in enumerate(zip(raw, fields, strict=True))]
    proofs = [
        json_fast.proven(r, v, shape, required=f.required, default=f.default is not None)
        for (r, v, shape), f in zip(triples, fields, strict=True)
    ]
    return typed.select(
        *[F.col(c) for c in opened.columns],
        *[v for _, v, _ in triples],
        reduce(and_, proofs, compiled_apart(F.col("_whole"))).alias("_good"),
        json_fast.accounted_for(F.col("_text"), json_fast.quotes_expected(triples)).alias("_accounted"),
    )


def _decode(read: DataFrame, plan: DecodePlan) -> DataFrame:
    """Flat columns of the decoded row, `_faults`, `_unknown`, `_extra`."""
    json = Format.JSON in plan.formats
    proven = F.col("_good") & F.col("_accounted") if json else F.lit(False)
    lanes = read.select(
        "*", F.when(F.col(records.PAYLOAD).isNotNull() & ~proven, decode_payload(plan)).alias("_slow")
    )
    slow = F.col("_slow")
    tokens = slow.getField("tokens")
    if json:
        per_field = [
            F.when(tokens.isNotNull(), field_of(tokens, f, strict=plan.strict)).alias(f"_f{i}")
            for i, f in enumerate(plan.fields)
        ]
        lanes = lanes.select("*", *per_field)
    stands = slow.getField("row").isNull() & tokens.isNull() & (F.size(slow.getField("faults")) == 0)
    fast = F.col("_good") & (F.col("_accounted") | stands) if json else F.lit(False)
    columns = []
    for i, f in enumerate(plan.fields):
        value = get(slow.getField("row"), f.column)
        if json:
            strictly = F.when(tokens.isNotNull(), F.col(f"_f{i}").getField("value")).otherwise(value)
            value = F.when(fast, F.col(f"_v{i}")).otherwise(strictly)
        columns.append(value.cast(f.shape.data_type).alias(f.column))
    faults = slow.getField("faults")
    if json:
        found = [F.col(f"_f{i}").getField("faults") for i in range(len(plan.fields))]
        faults = F.when(tokens.isNotNull(), F.concat(*found, faults)).otherwise(faults)
    nothing = F.map_from_arrays(F.array().cast("array<string>"), F.array().cast("array<string>"))
    return lanes.select(
        *_envelope(),
        F.col(SCHEMA_ID),
        F.col("_format"),
        *columns,
        F.when(compiled_apart(F.size(faults) > 0), faults).alias("_faults"),
        slow.getField("unknown").alias("_unknown"),
        *(
            [F.coalesce(slow.getField("extra"), nothing).alias("_extra")]
            if plan.unknown_fields == "keep"
            else []
        ),
    )


def _validate(decoded: DataFrame, plan: DecodePlan) -> DataFrame:
    """`_violations`, NULL where there is none, and the COB date; only of records that decoded."""
    sound = F.col("_faults").isNull() & F.col(records.PAYLOAD).isNotNull()
    checks: list[Column] = []
    frame = decoded
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
        return frame.withColumn("_violations", F.lit(None).cast(f"ARRAY<{VIOLATION}>"))
    guarded = [F.when(sound, check) for check in checks]
    named = frame.select("*", *[c.alias(f"_check{i}") for i, c in enumerate(guarded)])
    found = [F.col(f"_check{i}") for i in range(len(guarded))]
    some = ~reduce(and_, [c.isNull() for c in found])
    kept = [F.col(f"`{c}`") for c in frame.columns]
    return named.select(*kept, F.when(some, F.array_compact(F.array(*found))).alias("_violations"))


def _classify(checked: DataFrame, plan: DecodePlan) -> DataFrame:
    tombstone = F.col(records.PAYLOAD).isNull()
    wrong = F.col("_faults").isNotNull() | F.col("_violations").isNotNull()
    for_tombstone = Route.SKIPPED if plan.tombstones == "skip" else Route.REJECTED
    route = (
        F.when(tombstone, F.lit(for_tombstone.value))
        .when(wrong, F.lit(Route.REJECTED.value))
        .otherwise(F.lit(Route.ACCEPTED.value))
    )
    routed = checked.select("*", route.alias(records.ROUTE))
    accepted = F.col(records.ROUTE) == Route.ACCEPTED.value
    return routed.select(
        *_envelope(),
        F.col(records.ROUTE),
        F.when(F.col(records.ROUTE) == Route.REJECTED.value, failure_of(plan)).alias(records.FAILURE),
        F.when(accepted, F.struct(*_row(plan))).alias(records.ROW),
        F.coalesce(F.col("_unknown"), F.lit(0)).cast("int").alias(records.UNKNOWN_FIELDS),
        F.col(SCHEMA_ID),
    )


def _row(plan: DecodePlan) -> list[Column]:
    made = {name: F.expr(expression) for name, expression, _ in plan.enriched}
    made[records.SOURCE_TOPIC] = F.col(records.TOPIC)
    made[records.PROCESSING_VERSION] = F.lit(plan.processing_version)
    return [
        made.get(c.name, F.col(f"`{c.name}`")).cast(c.dataType).alias(c.name)
        for c in plan.table_schema.fields
    ]
