"""The slow lane of JSON: a payload that the fast lane did not prove good, read to the last detail.

It gives the same rows as the fast lane, and every fault. Reached by few records, so it may cost more.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode import tagged
from tidemark.transform.decode.expressions import bind, fault, no_faults, null
from tidemark.transform.decode.json_tree import JSON_OPTIONS, last_of_each_key, tokens_of
from tidemark.transform.fields import Field, struct_of

SENTINEL = "~tidemark~"
LONE_SURROGATE = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
BLANK = r"^[ \t\r\n]*\z"
WHITE = " \t\r\n"


def record(row: Column, faults: Column, unknown: Column, extra: Column, tokens: Column) -> Column:
    """What every format's slow lane gives: STRUCT<row, faults, unknown, extra, tokens>.

    JSON leaves the row to a later step, which reads `tokens` field by field: one expression for all of it
    would be nested deeper than a Connect client can send.
    """
    return F.struct(
        row.alias("row"),
        faults.alias("faults"),
        unknown.cast("int").alias("unknown"),
        extra.cast("map<string,string>").alias("extra"),
        tokens.alias("tokens"),
    )


def no_tokens(fields: tuple[Field, ...]) -> Column:
    texts = T.StructType([T.StructField("=" + f.name, T.StringType()) for f in fields])
    return null(
        T.StructType([T.StructField("keys", T.ArrayType(T.StringType())), T.StructField("values", texts)])
    )


def rejected(code: Code, fields: tuple[Field, ...], *, expected: str, found: Column | None = None) -> Column:
    """A record that is wrong as a whole."""
    whole = fault(code, field=F.lit(None).cast("string"), expected=expected, found=found)
    return record(null(struct_of(fields)), F.array(whole), F.lit(0), F.lit(None), no_tokens(fields))


def has_lone_surrogate(json: Column) -> Column:
    """Whether valid JSON has half a surrogate pair written as an escape, anywhere."""
    unescaped = F.replace(json, F.lit("\\\\"), F.lit("__"))
    return F.regexp_replace(unescaped, _PAIR, "").rlike(LONE_SURROGATE)


def blank_or_null(text: Column) -> Column:
    return text.rlike(BLANK) | (F.regexp_replace(text, r"^[ \t\r\n]+|[ \t\r\n]+\z", "") == "null")


def decode_strictly(text: Column, fields: tuple[Field, ...], *, strict: bool, unknown_fields: str) -> Column:
    """STRUCT<row, faults, unknown, extra> of one payload's text, which is valid UTF-8."""
    first = F.substring(F.btrim(text, F.lit(WHITE)), 1, 1)
    return (
        F.when(blank_or_null(text), rejected(Code.EMPTY_PAYLOAD, fields, expected="a JSON object"))
        .when(
            ~_is_json(text),
            F.when(
                F.from_json(text, "MAP<STRING, STRING>", JSON_OPTIONS).isNotNull(),
                rejected(Code.TRAILING_DATA, fields, expected="nothing after the object"),
            ).otherwise(rejected(Code.MALFORMED_JSON, fields, expected="JSON by RFC 8259")),
        )
        .when(
            has_lone_surrogate(text),
            rejected(Code.INVALID_UTF8, fields, expected="escapes of whole characters"),
        )
        .when(first != "{", rejected(Code.NOT_AN_OBJECT, fields, expected="a JSON object"))
        .otherwise(_object(text, fields, strict=strict, unknown_fields=unknown_fields))
    )


def _is_json(text: Column) -> Column:
    """Whether the text is exactly one JSON value: wrapped with a sentinel, the sentinel must come second.

    Spark's reader stops at the end of the first value. A sentinel that is read as the second element of
    an array of two proves that the first was the whole text. A text that has the sentinel's own words in
    it must pass with another sentinel too: no text can bring both as its second element.
    """
    doubtful = text.contains(SENTINEL) | text.contains("\\u")
    return _comes_second(text, SENTINEL) & (~doubtful | _comes_second(text, "~7~"))


def _comes_second(text: Column, sentinel: str) -> Column:
    wrapped = F.concat(F.lit('{"r":['), text, F.lit(f',"{sentinel}"]}}'))
    read = F.from_json(
        wrapped, "r ARRAY<STRING>, _corrupt STRING", {**JSON_OPTIONS, "columnNameOfCorruptRecord": "_corrupt"}
    )
    return bind(
        read,
        lambda j: F.coalesce(
            j.getField("_corrupt").isNull()
            & (F.size(j.getField("r")) == 2)
            & (F.get(j.getField("r"), F.lit(1)) == sentinel),
            F.lit(False),
        ),
    )


def ends_with_its_value(text: Column) -> Column:
    """Whether nothing follows the first JSON value, provided the text does not bring `,7` itself."""
    both = F.try_parse_json(F.concat(F.lit("["), text, F.lit(",7]")))
    return F.coalesce(F.try_variant_get(both, "$[1]", "int") == 7, F.lit(False))


def _object(text: Column, fields: tuple[Field, ...], *, strict: bool, unknown_fields: str) -> Column:
    known = F.array(*[F.lit(f.name) for f in fields])

    def body(json: Column) -> Column:
        unknown = F.array_except(F.json_object_keys(text), known)
        faults = no_faults()
        if unknown_fields == "reject":
            faults = F.transform(
                unknown,
                lambda key: fault(
                    Code.UNKNOWN_FIELD, field=key, expected="a field of the schema", found=None
                ),
            )
        extra = _extra(json, unknown, strict=strict) if unknown_fields == "keep" else F.lit(None)
        return record(null(struct_of(fields)), faults, F.size(unknown), extra, tokens_of(json, fields))

    good = bind(tagged.tag(text), body)
    if not strict:
        return good
    duplicate = rejected(Code.DUPLICATE_KEY, fields, expected="each key once in an object")
    return F.when(F.try_parse_json(text).isNull(), duplicate).otherwise(good)


def _extra(json: Column, unknown: Column, *, strict: bool) -> Column:
    entries = F.map_entries(F.from_json(json, "MAP<STRING, STRING>", JSON_OPTIONS))
    if not strict:
        entries = last_of_each_key(entries)
    plain = F.transform(
        entries,
        lambda e: F.struct(
            F.substr(e.getField("key"), F.lit(2)).alias("key"),
            tagged.text_of(e.getField("value")).alias("value"),
        ),
    )
    return F.map_from_entries(F.filter(plain, lambda e: F.array_contains(unknown, e.getField("key"))))


__all__ = [
    "BLANK",
    "SENTINEL",
    "blank_or_null",
    "decode_strictly",
    "has_lone_surrogate",
    "record",
    "rejected",
]
