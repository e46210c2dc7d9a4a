"""A tagged JSON token to a typed value with every fault in it, at any depth."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode import tagged
from tidemark.transform.decode.expressions import bind, fault, get, no_faults, null, quoted
from tidemark.transform.decode.scalar import binary, checked, datetime_text, epoch, failed, good, number
from tidemark.transform.fields import FLOATS, INTEGERS, Field, Shape

JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "allowComments": "false",
    "allowUnquotedFieldNames": "false",
    "allowNumericLeadingZeros": "false",
    "allowUnquotedControlChars": "false",
    "allowBackslashEscapingAnyCharacter": "false",
}
"""RFC 8259. The column name of a corrupt record is set per use."""


def parsed(value: Column, faults: Column) -> Column:
    return F.struct(value.alias("value"), faults.alias("faults"))


def value_of(token: Column, shape: Shape, path: Column, *, strict: bool) -> Column:
    """STRUCT<value, faults> of a token that is not null."""
    if shape.is_scalar:
        return _scalar(token, shape, path)
    if shape.fields:
        body = object_of(token, shape.fields, path, strict=strict)
        return F.when(tagged.is_object(token), body).otherwise(_mismatch(token, shape, path))
    if isinstance(shape.data_type, T.ArrayType):
        return F.when(tagged.is_array(token), _array(token, shape, path, strict=strict)).otherwise(
            _mismatch(token, shape, path)
        )
    return F.when(tagged.is_object(token), _map(token, shape, path, strict=strict)).otherwise(
        _mismatch(token, shape, path)
    )


def tokens_of(token: Column, fields: tuple[Field, ...]) -> Column:
    """STRUCT<keys, values> of an object token: its tagged keys, and the token of each known field."""
    texts = ", ".join(f"{quoted('=' + f.name)} STRING" for f in fields)
    return F.struct(
        F.json_object_keys(token).alias("keys"), F.from_json(token, texts, JSON_OPTIONS).alias("values")
    )


def field_of(tokens: Column, field: Field, *, strict: bool) -> Column:
    """STRUCT<value, faults> of a field at the top of the record."""
    return _field(tokens.getField("values"), tokens.getField("keys"), field, None, strict=strict)


def object_of(token: Column, fields: tuple[Field, ...], path: Column, *, strict: bool) -> Column:
    """STRUCT<value, faults> of an object token."""

    def body(members: Column) -> Column:
        keys, values = members.getField("keys"), members.getField("values")
        results = [(f, _field(values, keys, f, path, strict=strict)) for f in fields]
        return bind(
            F.struct(*[r.alias(f"f{i}") for i, (_, r) in enumerate(results)]),
            lambda done: parsed(
                F.struct(
                    *[done.getField(f"f{i}").getField("value").alias(f.column) for i, f in enumerate(fields)]
                ),
                F.concat(*[done.getField(f"f{i}").getField("faults") for i in range(len(fields))]),
            ),
        )

    return bind(tokens_of(token, fields), body)


def _field(values: Column, keys: Column, field: Field, parent: Column | None, *, strict: bool) -> Column:
    shape = field.shape
    path = F.lit(field.name) if parent is None else F.concat(parent, F.lit("." + field.name))
    token = get(values, "=" + field.name)
    nothing = parsed(null(shape.data_type), no_faults())
    missing = fault(Code.REQUIRED_FIELD, field=path, expected=f"{shape.expected} NOT NULL", found=None)
    absent = ~F.array_contains(keys, "=" + field.name)
    given = value_of(token, shape, path, strict=strict)
    otherwise = parsed(null(shape.data_type), F.array(missing)) if field.required else nothing
    result = F.when(token.isNotNull(), given)
    if field.default is not None:
        result = result.when(absent, parsed(F.lit(field.default).cast(shape.data_type), no_faults()))
    return result.otherwise(otherwise)


def _array(token: Column, shape: Shape, path: Column, *, strict: bool) -> Column:
    element = shape.element
    assert element is not None
    tokens = F.from_json(token, "ARRAY<STRING>", JSON_OPTIONS)
    results = F.transform(
        tokens,
        lambda each, at: _element(
            each, element, F.concat(path, F.lit("["), at.cast("string"), F.lit("]")), strict=strict
        ),
    )
    return bind(
        results,
        lambda done: parsed(
            F.transform(done, lambda r: r.getField("value")),
            F.flatten(F.transform(done, lambda r: r.getField("faults"))),
        ),
    )


def _map(token: Column, shape: Shape, path: Column, *, strict: bool) -> Column:
    value = shape.element
    assert value is not None
    entries = F.map_entries(F.from_json(token, "MAP<STRING, STRING>", JSON_OPTIONS))
    if not strict:
        entries = last_of_each_key(entries)

    def entry(each: Column) -> Column:
        key = F.substr(each.getField("key"), F.lit(2))
        inner = F.concat(path, F.lit("["), key, F.lit("]"))
        return F.struct(
            key.alias("key"), _element(each.getField("value"), value, inner, strict=strict).alias("result")
        )

    return bind(
        F.transform(entries, entry),
        lambda done: parsed(
            F.map_from_entries(
                F.transform(
                    done,
                    lambda e: F.struct(
                        e.getField("key").alias("key"),
                        e.getField("result").getField("value").alias("value"),
                    ),
                )
            ),
            F.flatten(F.transform(done, lambda e: e.getField("result").getField("faults"))),
        ),
    )


def last_of_each_key(entries: Column) -> Column:
    """Entries of a map without those that a later one of the same key replaces."""
    return F.filter(
        entries,
        lambda each, at: (
            ~F.exists(
                F.slice(entries, at + 2, F.greatest(F.size(entries) - at - 1, F.lit(0))),
                lambda later: later.getField("key") == each.getField("key"),
            )
        ),
    )


def _element(token: Column, shape: Shape, path: Column, *, strict: bool) -> Column:
    missing = fault(Code.REQUIRED_FIELD, field=path, expected=f"{shape.expected} NOT NULL", found=None)
    otherwise = no_faults() if shape.nullable else F.array(missing)
    return F.when(token.isNotNull(), value_of(token, shape, path, strict=strict)).otherwise(
        parsed(null(shape.data_type), otherwise)
    )


def _mismatch(token: Column, shape: Shape, path: Column) -> Column:
    found = None if shape.hides else tagged.shown(token)
    return parsed(
        null(shape.data_type),
        F.array(fault(Code.TYPE_MISMATCH, field=path, expected=shape.expected, found=found)),
    )


def _scalar(token: Column, shape: Shape, path: Column) -> Column:
    found = None if shape.hides else tagged.shown(token)

    def result(outcome: Column) -> Column:
        wrong = fault(outcome.getField("code"), field=path, expected=shape.expected, found=found)
        return parsed(
            outcome.getField("value"),
            F.when(outcome.getField("code").isNull(), no_faults()).otherwise(F.array(wrong)),
        )

    return bind(_outcome(token, shape), result)


def _outcome(token: Column, shape: Shape) -> Column:
    kind = shape.data_type
    mismatch = failed(Code.TYPE_MISMATCH, kind)
    text = F.substr(token, F.lit(2))
    if isinstance(kind, T.StringType):
        return good(tagged.text_of(token), kind)
    if isinstance(kind, T.BooleanType):
        return checked(F.when(tagged.is_boolean(token), token == "true"), Code.TYPE_MISMATCH, kind)
    if isinstance(kind, (*INTEGERS, *FLOATS, T.DecimalType)):
        return F.when(tagged.is_number(token), number(text, kind)).otherwise(mismatch)
    if isinstance(kind, T.BinaryType):
        return F.when(tagged.is_string(token), binary(text)).otherwise(mismatch)
    result = F.when(tagged.is_string(token), datetime_text(text, kind))
    if shape.epoch:
        result = result.when(tagged.is_number(token), epoch(text, shape.epoch, kind))
    return result.otherwise(mismatch)
