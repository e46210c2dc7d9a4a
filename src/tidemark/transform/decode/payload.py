"""The slow lane of any format: one payload to STRUCT<row, faults, unknown, extra, tokens>."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.config.decoding import Format
from tidemark.contract import records
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.avro import body_of, decode_avro, decode_framed
from tidemark.transform.decode.csv import decode_csv
from tidemark.transform.decode.detect import BOM
from tidemark.transform.decode.expressions import bind, no_faults, null
from tidemark.transform.decode.json_proof import unknown_count
from tidemark.transform.decode.json_strict import blank_or_null, decode_strictly, no_tokens, record, rejected
from tidemark.transform.decode.json_tree import field_of
from tidemark.transform.fields import struct_of
from tidemark.transform.plan import DecodePlan

ENVELOPE = "_envelope"
"""The column of a record's envelope, a STRUCT of `ENVELOPE_COLUMNS`."""
UNWRAPPED = "_unwrapped"
"""The column of what a decoder made of the payload; there is none without a decoder."""

_BROKEN_FRAME = {
    Format.JSON: Code.MALFORMED_JSON,
    Format.CSV: Code.MALFORMED_CSV,
    Format.AVRO: Code.MALFORMED_AVRO,
}


def of_envelope(name: str) -> Column:
    return F.col(ENVELOPE).getField(name)


def payload_of(plan: DecodePlan, *, packed: bool = True) -> Column:
    """The payload's bytes, taken out of the topic's wrapping where the stream has a decoder for it.

    `packed`: in the envelope's column; else in one of its own.
    """
    if plan.decoder:
        return F.col(UNWRAPPED)
    return of_envelope(records.PAYLOAD) if packed else F.col(records.PAYLOAD)


def body_bytes(plan: DecodePlan, *, packed: bool = True) -> Column:
    """The payload without its frame; NULL where a framed topic's payload has none."""
    payload = payload_of(plan, packed=packed)
    return F.when(F.col("schema_id").isNotNull(), body_of(payload)) if plan.framed else payload


def text_of(plan: DecodePlan, *, packed: bool = True) -> Column:
    """The payload as text without its BOM, which may be invalid UTF-8."""
    text = body_bytes(plan, packed=packed).cast("string")
    if plan.formats == (Format.AVRO,):
        return text
    return F.when(text.startswith(BOM), F.substr(text, F.lit(2))).otherwise(text)


def decode_payload(plan: DecodePlan) -> Column:
    """Of the columns `_envelope`, `_format`, `schema_id`, and `_right` where JSON is supported.

    A record whose JSON values are good already, and only its keys in doubt, comes back without a row and
    without faults if they are right: then the values stand. Interpreted on purpose, through `bind`: it is
    reached by few records, and in the generated code it would slow down the others.
    """

    def decided(text: Column) -> Column:
        strictly = _decided(text, body_bytes(plan), F.col("schema_id"), F.col("_format"), plan)
        if Format.JSON not in plan.formats or not plan.strict:
            return strictly
        return bind(
            F.when(F.col("_right"), unknown_count(text, plan.fields)),
            lambda count: F.when(_stands(count, plan), _unchanged(count, plan)).otherwise(strictly),
        )

    return bind(text_of(plan), decided)


def by_field(slow: Column, plan: DecodePlan) -> Column:
    """What `decode_payload` gave, with the row and the faults of the tokens that JSON left to this step."""
    tokens = slow.getField("tokens")
    found = F.struct(
        *[field_of(tokens, f, strict=plan.strict).alias(f"f{i}") for i, f in enumerate(plan.fields)]
    )
    rest = [slow.getField(name).alias(name) for name in ("unknown", "extra")]

    def done(each: Column) -> Column:
        parts = [each.getField(f"f{i}") for i in range(len(plan.fields))]
        row = F.struct(
            *[p.getField("value").alias(f.column) for p, f in zip(parts, plan.fields, strict=True)]
        )
        faults = F.concat(*[p.getField("faults") for p in parts], slow.getField("faults"))
        return F.struct(row.alias("row"), faults.alias("faults"), *rest)

    whole = [slow.getField(name).alias(name) for name in ("row", "faults")]
    return F.when(tokens.isNotNull(), bind(found, done)).otherwise(F.struct(*whole, *rest))


def _stands(count: Column, plan: DecodePlan) -> Column:
    return count >= 0 if plan.unknown_fields == "ignore" else count == 0


def _unchanged(count: Column, plan: DecodePlan) -> Column:
    return record(null(struct_of(plan.fields)), no_faults(), count, F.lit(None), no_tokens(plan.fields))


def _decided(text: Column, body: Column, identity: Column, format_: Column, plan: DecodePlan) -> Column:
    fields = plan.fields
    formats = ", ".join(f.value for f in plan.formats)
    empty = rejected(Code.EMPTY_PAYLOAD, fields, expected="a payload")
    result = F.when(F.octet_length(of_envelope(records.PAYLOAD)) == 0, empty)
    if plan.decoder:
        wrapped = rejected(Code.UNSUPPORTED_FORMAT, fields, expected=f"what decoder {plan.decoder} reads")
        result = result.when(F.col(UNWRAPPED).isNull(), wrapped)
    result = result.when(F.octet_length(body) == 0, empty)
    if plan.framed:
        broken = _BROKEN_FRAME[plan.formats[0]] if len(plan.formats) == 1 else Code.UNSUPPORTED_FORMAT
        result = result.when(identity.isNull(), rejected(broken, fields, expected="byte 0 and a schema id"))
    textual = plan.formats != (Format.AVRO,)
    if textual:
        result = result.when(_blank(text, plan), empty)
    unsupported = rejected(Code.UNSUPPORTED_FORMAT, fields, expected=f"one of {formats}")
    result = result.when(format_.isNull(), unsupported)
    if Format.AVRO in plan.formats:
        result = result.when(format_ == Format.AVRO.value, _avro(body, identity, plan))
    if textual:
        invalid = rejected(Code.INVALID_UTF8, fields, expected="UTF-8 text")
        result = result.when(~F.is_valid_utf8(text), invalid)
    if Format.CSV in plan.formats:
        line = decode_csv(text, fields, plan.csv)
        result = result.when(format_ == Format.CSV.value, line)
    if Format.JSON in plan.formats:
        strictly = decode_strictly(text, fields, strict=plan.strict, unknown_fields=plan.unknown_fields)
        result = result.when(format_ == Format.JSON.value, strictly)
    return result.otherwise(unsupported)


def _blank(text: Column, plan: DecodePlan) -> Column:
    """Nothing but white space, or the literal `null`; the CSV delimiter is not white space."""
    blank = blank_or_null(text)
    if Format.CSV in plan.formats and plan.csv.delimiter in " \t":
        blank = blank & ~text.contains(plan.csv.delimiter)
    return blank


def _avro(body: Column, identity: Column, plan: DecodePlan) -> Column:
    if plan.framed:
        return decode_framed(
            identity,
            body,
            plan.fields,
            writers=dict(plan.writers),
            reader=plan.reader,
            unknown_fields=plan.unknown_fields,
        )
    return decode_avro(
        body, plan.fields, writer=plan.writer, reader=plan.reader, unknown_fields=plan.unknown_fields
    )
