"""The way of a record's bytes to its route: decode, validate, enrich, classify. Pure Columns.

Each step is one `select`, so that what the next one uses several times is computed once: Spark does not
merge projections whose expensive parts are used more than once.
"""

from __future__ import annotations

from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.config.decoding import Format
from tidemark.contract import records
from tidemark.contract.routes import Route
from tidemark.transform.decode import json_fast, json_proof
from tidemark.transform.decode.avro import schema_id
from tidemark.transform.decode.decoders import decoder_named
from tidemark.transform.decode.detect import format_of
from tidemark.transform.decode.expressions import compiled_apart, folded, get
from tidemark.transform.decode.json_tree import field_of
from tidemark.transform.decode.payload import (
    ENVELOPE,
    UNWRAPPED,
    decode_payload,
    of_envelope,
    payload_of,
    text_of,
)
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


def _open(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    """Packs the envelope into one column, takes the frame off and finds the format.

    Every step copies its columns: one STRUCT is copied in one go. The payload's text is an expression,
    not a column, for the same reason.
    """
    packed = envelopes.select(F.struct(*records.ENVELOPE_COLUMNS).alias(ENVELOPE))
    if plan.decoder:
        inside = decoder_named(plan.decoder)(of_envelope(records.PAYLOAD)).cast("binary")
        packed = packed.select("*", inside.alias(UNWRAPPED))
    identity = schema_id(payload_of(plan)) if plan.framed else F.lit(None).cast("bigint")
    framed = packed.select("*", identity.alias(SCHEMA_ID))
    return framed.select("*", format_of(text_of(plan), plan.formats, plan.csv).alias("_format"))


def _read_json(opened: DataFrame, plan: DecodePlan) -> DataFrame:
    """The fast lane: `_fast` (STRUCT of the decoded row), `_right` (its values are what the payload says)
    and `_proven` (so is all else: nothing more has to be looked at).
    """
    text, json = text_of(plan), F.col("_json")
    read = json_fast.read(text, plan.fields)
    if len(plan.formats) > 1:
        read = F.when(F.col("_format") == Format.JSON.value, read)
    parsed = opened.select("*", read.alias("_json"))
    reads = json_fast.reads_of(json, plan.fields)
    whole = json_proof.parsed_whole(text, json)
    proven = whole & json_proof.accounted_for(text, reads) & json_proof.values_right(reads, text=text)
    return parsed.select(
        *opened.columns,
        F.struct(*[r.typed.alias(r.field.column) for r in reads]).alias("_fast"),
        (whole & json_proof.values_right(reads)).alias("_right"),
        (proven & compiled_apart(json.isNotNull())).alias("_proven"),
    )


def _decode(read: DataFrame, plan: DecodePlan) -> DataFrame:
    """`_decoded` (STRUCT of the decoded row), `_faults` (NULL where there is none), `_unknown`, `_extra`."""
    json = Format.JSON in plan.formats
    proven = F.col("_proven") if json else F.lit(False)
    doubtful = of_envelope(records.PAYLOAD).isNotNull() & ~proven
    lanes = read.select("*", F.when(doubtful, decode_payload(plan)).alias("_slow"))
    slow, by_field = F.col("_slow"), F.col("_by_field")
    tokens, faults = slow.getField("tokens"), slow.getField("faults")
    values = slow.getField("row")
    if json:
        each = [field_of(tokens, f, strict=plan.strict).alias(f"f{i}") for i, f in enumerate(plan.fields)]
        lanes = lanes.select("*", F.when(tokens.isNotNull(), F.struct(*each)).alias("_by_field"))
        stands = values.isNull() & tokens.isNull() & (F.size(faults) == 0)
        found = [by_field.getField(f"f{i}") for i in range(len(plan.fields))]
        strictly = F.struct(
            *[r.getField("value").alias(f.column) for r, f in zip(found, plan.fields, strict=True)]
        )
        faults = F.when(
            by_field.isNotNull(), F.concat(*[r.getField("faults") for r in found], faults)
        ).otherwise(faults)
        values = (
            F.when(proven | (F.col("_right") & stands), F.col("_fast"))
            .when(by_field.isNotNull(), strictly)
            .otherwise(values)
        )
    kept = [F.col(c) for c in (ENVELOPE, SCHEMA_ID, "_format")]
    if plan.unknown_fields == "keep":
        nothing = F.map_from_arrays(F.array().cast("array<string>"), F.array().cast("array<string>"))
        kept.append(F.coalesce(slow.getField("extra"), nothing).alias("_extra"))
    return lanes.select(
        *kept,
        values.cast(plan.decoded_schema).alias("_decoded"),
        F.when(compiled_apart(F.size(faults) > 0), faults).alias("_faults"),
        slow.getField("unknown").alias("_unknown"),
    )


def _validate(decoded: DataFrame, plan: DecodePlan) -> DataFrame:
    """`_violations`, NULL where there is none, and the COB date; only of records that decoded.

    Expressions name columns of the row and of the envelope: where there are any, these are unpacked.
    """
    sound = F.col("_faults").isNull() & of_envelope(records.PAYLOAD).isNotNull()
    checks: list[Column] = []
    frame = decoded
    if plan.cob is not None or plan.rules or plan.enriched:
        frame = decoded.select("*", f"{ENVELOPE}.*", "_decoded.*")
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
    some = ~folded(and_, [c.isNull() for c in found])
    kept = [F.col(f"`{c}`") for c in frame.columns]
    return named.select(*kept, F.when(some, F.array_compact(F.array(*found))).alias("_violations"))


def _classify(checked: DataFrame, plan: DecodePlan) -> DataFrame:
    tombstone = of_envelope(records.PAYLOAD).isNull()
    wrong = F.col("_faults").isNotNull() | F.col("_violations").isNotNull()
    for_tombstone = Route.SKIPPED if plan.tombstones == "skip" else Route.REJECTED
    rejected = tombstone | wrong if for_tombstone is Route.REJECTED else ~tombstone & wrong
    route = (
        F.when(tombstone, F.lit(for_tombstone.value))
        .when(wrong, F.lit(Route.REJECTED.value))
        .otherwise(F.lit(Route.ACCEPTED.value))
    )
    return checked.select(
        *[of_envelope(c).alias(c) for c in records.ENVELOPE_COLUMNS],
        route.alias(records.ROUTE),
        F.when(rejected, failure_of(plan)).alias(records.FAILURE),
        F.when(~tombstone & ~wrong, F.struct(*_row(plan))).alias(records.ROW),
        F.coalesce(F.col("_unknown"), F.lit(0)).cast("int").alias(records.UNKNOWN_FIELDS),
        F.col(SCHEMA_ID),
    )


def _row(plan: DecodePlan) -> list[Column]:
    made = {f.column: get(F.col("_decoded"), f.column) for f in plan.fields}
    made |= {name: of_envelope(name) for name in records.ADDED_COLUMNS if name in records.ENVELOPE_COLUMNS}
    made |= {name: F.expr(expression) for name, expression, _ in plan.enriched}
    made[records.SOURCE_TOPIC] = of_envelope(records.TOPIC)
    made[records.PROCESSING_VERSION] = F.lit(plan.processing_version)
    return [
        made.get(c.name, F.col(f"`{c.name}`")).cast(c.dataType).alias(c.name)
        for c in plan.table_schema.fields
    ]
