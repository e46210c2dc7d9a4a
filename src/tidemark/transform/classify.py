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
from tidemark.transform.decode import csv_fast, json_fast, json_proof
from tidemark.transform.decode.avro import schema_id
from tidemark.transform.decode.decoders import decoder_named
from tidemark.transform.decode.detect import format_of
from tidemark.transform.decode.expressions import compiled_apart, folded, get, null
from tidemark.transform.decode.payload import (
    ENVELOPE,
    UNWRAPPED,
    by_field,
    decode_payload,
    of_envelope,
    payload_of,
    text_of,
)
from tidemark.transform.failure import failure_of
from tidemark.transform.fitting import FORMAT, fitted
from tidemark.transform.plan import DecodePlan
from tidemark.transform.validate import (
    VIOLATIONS,
    checked_enrichment,
    checked_rule,
    cob_date,
    cob_in_future,
    cob_unparsable,
)

SCHEMA_ID = "schema_id"
_READ = {Format.JSON: "_json", Format.CSV: "_csv"}
"""The column of what a fast lane read."""


def transform(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    """Records with their route. Works on batch and streaming frames, classic and Connect.

    In: `ENVELOPE_COLUMNS`. Out: the same columns untouched, then `route`, `failure` (NULL unless
    rejected), `row` (STRUCT of `plan.table_schema`, NULL unless accepted), `unknown_fields` and
    `schema_id` (of a framed payload). Never raises for what a record holds.
    """
    decoded = _decode(_prove(_type(_read(envelopes, plan), plan), plan), plan)
    if plan.cob is not None or plan.rules or plan.enriched:
        decoded = _validate(_settle(decoded, plan), plan)
    classified = _classify(decoded, plan)
    return fitted(classified, plan.limits) if plan.limits.any else classified


def _read(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
    """Finds the format, packs the envelope into one column and has the fast lanes read the payload: `_json`,
    and `_csv` of a line that has its usual shape.

    Every step copies its columns: one STRUCT is copied in one go. The payload's text is an expression,
    not a column, for the same reason.
    """
    opened, payload = envelopes, F.col(records.PAYLOAD)
    if plan.decoder:
        inside = decoder_named(plan.decoder)(payload).cast("binary")
        opened = opened.withColumn(UNWRAPPED, inside)
    identity = schema_id(payload_of(plan, packed=False)) if plan.framed else F.lit(None).cast("bigint")
    opened = opened.withColumn(SCHEMA_ID, identity)
    text = text_of(plan, packed=False)
    opened = opened.withColumn("_format", format_of(text, plan.formats, plan.csv))
    read = {Format.JSON: json_fast.read(text, plan.fields)} if Format.JSON in plan.formats else {}
    shape = csv_fast.line_shape(plan.fields, plan.csv) if Format.CSV in plan.formats else None
    if shape is not None:
        read[Format.CSV] = csv_fast.tokens_of(text, shape, plan.csv)
    if len(plan.formats) > 1:
        read = {f: F.when(F.col("_format") == f.value, column) for f, column in read.items()}
    return opened.select(
        F.struct(*records.ENVELOPE_COLUMNS).alias(ENVELOPE),
        *[c for c in (UNWRAPPED, SCHEMA_ID, "_format") if c in opened.columns],
        *[column.alias(_READ[f]) for f, column in read.items()],
    )


def _type(read: DataFrame, plan: DecodePlan) -> DataFrame:
    """Adds `_fast`, a STRUCT of the decoded row by the fast lanes.

    A step of its own: the proofs name its values, instead of bringing their expressions several times, for
    Spark to optimise in every batch.
    """
    payload = of_envelope(records.PAYLOAD)
    fast = F.when(F.lit(False), null(plan.decoded_schema))
    if _READ[Format.JSON] in read.columns:
        json = F.col(_READ[Format.JSON])
        # Evaluated where there is no object alone, and false there.
        apart = compiled_apart(payload.isNull())
        fast = fast.when(json.isNotNull() | apart, F.struct(*json_fast.values_of(json, plan.fields)))
    if _READ[Format.CSV] in read.columns:
        tokens = F.col(_READ[Format.CSV])
        values = csv_fast.values_of(tokens, plan.fields, plan.csv)
        fast = fast.when(tokens.isNotNull() | compiled_apart(payload.isNull()), F.struct(*values))
    return read.select("*", fast.alias("_fast"))


def _prove(typed: DataFrame, plan: DecodePlan) -> DataFrame:
    """Adds `_right` (the fast lane's values are what the payload says) and `_proven` (so is all else: nothing
    more has to be looked at).
    """
    fast, right, proven = F.col("_fast"), F.lit(False), F.lit(False)
    if _READ[Format.JSON] in typed.columns:
        text, json = text_of(plan), F.col(_READ[Format.JSON])
        reads = json_fast.reads_of(json, fast, plan.fields)
        right = json_proof.parsed_whole(text, json) & json_proof.values_right(reads)
        accounted = json_proof.accounted_for(text, reads)
        proven = json_proof.parsed(json) & accounted & json_proof.values_right(reads, text=text)
    if _READ[Format.CSV] in typed.columns:
        tokens = F.col(_READ[Format.CSV])
        proven = proven | csv_fast.proven(tokens, fast, plan.fields, plan.csv)
    kept = [F.col(c) for c in typed.columns if c not in _READ.values()]
    return typed.select(*kept, right.alias("_right"), F.coalesce(proven, F.lit(False)).alias("_proven"))


def _decode(proven: DataFrame, plan: DecodePlan) -> DataFrame:
    """`_fast`, and `_slow` of a payload that is not proven: STRUCT<row, faults, unknown, extra>."""
    kept = [F.col(c) for c in (ENVELOPE, SCHEMA_ID, "_format", "_fast")]
    kept += [F.col("_right")] if _has_containers(plan) else []
    doubtful = of_envelope(records.PAYLOAD).isNotNull() & ~F.col("_proven")
    read = proven.select(*kept, F.when(doubtful, decode_payload(plan)).alias("_slow"))
    if Format.JSON not in plan.formats:
        return read
    slow = F.col("_slow")
    return read.select(*kept, F.when(slow.isNotNull(), by_field(slow, plan)).alias("_slow"))


def _has_containers(plan: DecodePlan) -> bool:
    return not all(f.shape.is_scalar for f in plan.fields)


def _stands(plan: DecodePlan) -> Column:
    """Whether the fast lane's values are the record's: it was proven, or only its keys were in doubt.

    `_right` is true then. Named here, it remains a column, and compiled: Spark merges the step that makes it
    with the next one otherwise, and interprets it within `_slow`, where each record with containers goes.
    """
    slow = F.col("_slow")
    only_keys = slow.getField("row").isNull() & (F.size(_faults()) == 0)
    return slow.isNull() | (only_keys & F.col("_right") if _has_containers(plan) else only_keys)


def _faults() -> Column:
    return F.col("_slow").getField("faults")


def _settle(lanes: DataFrame, plan: DecodePlan) -> DataFrame:
    """`_decoded` (STRUCT of the decoded row) for what uses it several times, and `_faults`."""
    return lanes.select(
        *[F.col(c) for c in (ENVELOPE, SCHEMA_ID, "_format", "_slow")],
        F.when(_stands(plan), F.col("_fast")).otherwise(F.col("_slow").getField("row")).alias("_decoded"),
        F.when(compiled_apart(F.size(_faults()) > 0), _faults()).alias("_faults"),
    )


def _validate(decoded: DataFrame, plan: DecodePlan) -> DataFrame:
    """`_violations`, NULL where there is none, and the COB date; only of records that decoded.

    Expressions name columns of the row and of the envelope: these are unpacked.
    """
    sound = F.col("_faults").isNull() & of_envelope(records.PAYLOAD).isNotNull()
    checks: list[Column] = []
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
        return frame.withColumn("_violations", null(VIOLATIONS))
    guarded = [F.when(sound, check) for check in checks]
    named = frame.select("*", *[c.alias(f"_check{i}") for i, c in enumerate(guarded)])
    found = [F.col(f"_check{i}") for i in range(len(guarded))]
    some = ~folded(and_, [c.isNull() for c in found])
    kept = [F.col(f"`{c}`") for c in frame.columns]
    return named.select(*kept, F.when(some, F.array_compact(F.array(*found))).alias("_violations"))


def _classify(checked: DataFrame, plan: DecodePlan) -> DataFrame:
    """The route, and what goes with it. In: columns of `_decode`; of `_validate` where there are checks."""
    tombstone = of_envelope(records.PAYLOAD).isNull()
    if "_decoded" in checked.columns:
        faults: Column = F.col("_faults")
        violations: Column | None = F.col("_violations")
        row = F.struct(*_row(plan, F.col("_decoded")))
    else:
        faults, violations = F.when(F.size(_faults()) > 0, _faults()), None
        strictly = F.struct(*_row(plan, F.col("_slow").getField("row")))
        row = F.when(_stands(plan), F.struct(*_row(plan, F.col("_fast")))).otherwise(strictly)
    wrong = faults.isNotNull() if violations is None else faults.isNotNull() | violations.isNotNull()
    for_tombstone = Route.SKIPPED if plan.tombstones == "skip" else Route.REJECTED
    rejected = tombstone | wrong if for_tombstone is Route.REJECTED else ~tombstone & wrong
    route = (
        F.when(tombstone, F.lit(for_tombstone.value))
        .when(wrong, F.lit(Route.REJECTED.value))
        .otherwise(F.lit(Route.ACCEPTED.value))
    )
    unknown = F.col("_slow").getField("unknown")
    return checked.select(
        *[of_envelope(c).alias(c) for c in records.ENVELOPE_COLUMNS],
        route.alias(records.ROUTE),
        F.when(rejected, failure_of(faults, violations)).alias(records.FAILURE),
        F.when(~tombstone & ~wrong, row).alias(records.ROW),
        F.coalesce(unknown, F.lit(0)).cast("int").alias(records.UNKNOWN_FIELDS),
        F.col(SCHEMA_ID),
        *([F.col(FORMAT)] if plan.limits.any else []),
    )


def _row(plan: DecodePlan, decoded: Column) -> list[Column]:
    nothing = F.map_from_arrays(F.array().cast("array<string>"), F.array().cast("array<string>"))
    made = {records.EXTRA: F.coalesce(F.col("_slow").getField("extra"), nothing)}
    made |= {f.column: get(decoded, f.column) for f in plan.fields}
    made |= {name: of_envelope(name) for name in records.ADDED_COLUMNS if name in records.ENVELOPE_COLUMNS}
    made |= {name: F.expr(expression) for name, expression, _ in plan.enriched}
    made[records.SOURCE_TOPIC] = of_envelope(records.TOPIC)
    made[records.PROCESSING_VERSION] = F.lit(plan.processing_version)
    return [
        made.get(c.name, F.col(f"`{c.name}`")).cast(c.dataType).alias(c.name)
        for c in plan.table_schema.fields
    ]
