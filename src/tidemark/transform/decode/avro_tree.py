"""A decoded Avro value to the declared column's type, with every fault in it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.expressions import bind, fault, get, no_faults, null
from tidemark.transform.decode.json_strict import no_tokens, record
from tidemark.transform.decode.json_tree import parsed
from tidemark.transform.decode.scalar import (
    FIRST_MICROS,
    LAST_MICROS,
    checked,
    datetime_text,
    epoch,
    failed,
    good,
    in_range,
    number,
)
from tidemark.transform.fields import DATETIMES, FLOATS, INTEGERS, Field, Shape


def row_of(
    value: Column, seen: tuple[Field, ...], fields: tuple[Field, ...], *, unknown_fields: str
) -> Column:
    """STRUCT<row, faults, unknown, extra> of a decoded record whose own fields are `seen`."""
    names = {f.name for f in fields}
    surplus = [f for f in seen if f.name not in names]
    decoded = _struct(value, seen, fields, None)
    if unknown_fields == "reject" and surplus:
        unexpected = [
            fault(Code.UNKNOWN_FIELD, field=F.lit(f.name), expected="a field of the schema", found=None)
            for f in surplus
        ]
        decoded = bind(
            decoded,
            lambda d: parsed(d.getField("value"), F.concat(d.getField("faults"), F.array(*unexpected))),
        )
    extra = F.lit(None).cast("map<string,string>")
    if unknown_fields == "keep":
        pairs: list[Column] = []
        for f in surplus:
            pairs += [F.lit(f.name), _as_text(get(value, f.name), f.shape)]
        extra = (
            F.create_map(*pairs).cast("map<string,string>")
            if pairs
            else F.map_from_arrays(F.array().cast("array<string>"), F.array().cast("array<string>"))
        )
    return bind(
        decoded,
        lambda d: record(
            d.getField("value"), d.getField("faults"), F.lit(len(surplus)), extra, no_tokens(fields)
        ),
    )


def _as_text(value: Column, shape: Shape) -> Column:
    if not shape.is_scalar:
        return F.to_json(value)
    return F.base64(value) if isinstance(shape.data_type, T.BinaryType) else value.cast("string")


def _struct(
    value: Column, seen: tuple[Field, ...], fields: tuple[Field, ...], parent: Column | None
) -> Column:
    by_name = {f.name: f for f in seen}
    results = []
    for f in fields:
        path = F.lit(f.name) if parent is None else F.concat(parent, F.lit("." + f.name))
        source = by_name.get(f.name)
        if source is None:
            results.append(_absent(f, path))
            continue
        results.append(_field(get(value, f.name), source.shape, f, path))
    return bind(
        F.struct(*[r.alias(f"f{i}") for i, r in enumerate(results)]),
        lambda done: parsed(
            F.struct(
                *[done.getField(f"f{i}").getField("value").alias(f.column) for i, f in enumerate(fields)]
            ),
            F.concat(*[done.getField(f"f{i}").getField("faults") for i in range(len(fields))]),
        ),
    )


def _absent(field: Field, path: Column) -> Column:
    if field.default is not None:
        return parsed(F.lit(field.default).cast(field.shape.data_type), no_faults())
    return parsed(null(field.shape.data_type), _missing(field.shape, path, required=field.required))


def _missing(shape: Shape, path: Column, *, required: bool) -> Column:
    if not required:
        return no_faults()
    return F.array(fault(Code.REQUIRED_FIELD, field=path, expected=f"{shape.expected} NOT NULL", found=None))


def _field(value: Column, seen: Shape, field: Field, path: Column) -> Column:
    nothing = parsed(null(field.shape.data_type), _missing(field.shape, path, required=field.required))
    return F.when(value.isNotNull(), _value(value, seen, field.shape, path)).otherwise(nothing)


def _value(value: Column, seen: Shape, shape: Shape, path: Column) -> Column:
    if shape.fields and seen.fields:
        return _struct(value, seen.fields, shape.fields, path)
    kind, found = shape.data_type, seen.data_type
    if isinstance(kind, T.ArrayType) and isinstance(found, T.ArrayType):
        return _array(value, seen, shape, path)
    if isinstance(kind, T.MapType) and isinstance(found, T.MapType):
        return _map(value, seen, shape, path)
    shown = None if shape.hides else _as_text(value, seen)

    def result(outcome: Column) -> Column:
        wrong = fault(outcome.getField("code"), field=path, expected=shape.expected, found=shown)
        faults = F.when(outcome.getField("code").isNull(), no_faults()).otherwise(F.array(wrong))
        return parsed(outcome.getField("value"), faults)

    return bind(_outcome(value, seen, shape), result)


def _array(value: Column, seen: Shape, shape: Shape, path: Column) -> Column:
    done = F.transform(
        value, lambda e, i: _element(e, seen, shape, F.concat(path, F.lit("["), i.cast("string"), F.lit("]")))
    )
    return bind(
        done,
        lambda d: parsed(
            F.transform(d, lambda r: r.getField("value")),
            F.flatten(F.transform(d, lambda r: r.getField("faults"))),
        ),
    )


def _map(value: Column, seen: Shape, shape: Shape, path: Column) -> Column:
    done = F.transform_values(
        value, lambda k, v: _element(v, seen, shape, F.concat(path, F.lit("["), k, F.lit("]")))
    )
    return bind(
        done,
        lambda d: parsed(
            F.transform_values(d, lambda _, r: r.getField("value")),
            F.flatten(F.transform(F.map_values(d), lambda r: r.getField("faults"))),
        ),
    )


def _element(value: Column, seen: Shape, shape: Shape, path: Column) -> Column:
    assert seen.element is not None
    assert shape.element is not None
    inner = shape.element
    nothing = parsed(null(inner.data_type), _missing(inner, path, required=not inner.nullable))
    return F.when(value.isNotNull(), _value(value, seen.element, inner, path)).otherwise(nothing)


def _outcome(value: Column, seen: Shape, shape: Shape) -> Column:
    kind, found = shape.data_type, seen.data_type
    if not (shape.is_scalar and seen.is_scalar):
        return failed(Code.TYPE_MISMATCH, kind)
    if seen.epoch is not None:
        return _from_millis(value, kind)
    if isinstance(found, T.StringType):
        return _from_string(value, shape)
    if isinstance(found, T.DecimalType) and isinstance(kind, T.DecimalType) and kind.scale >= found.scale:
        return checked(value.try_cast(kind), Code.DECIMAL_PRECISION, kind)
    if isinstance(kind, T.StringType) and not isinstance(found, (T.BinaryType, *DATETIMES)):
        return good(value.cast("string"), kind)
    if isinstance(found, (*INTEGERS, T.DecimalType)) and isinstance(
        kind, (*INTEGERS, *FLOATS, T.DecimalType)
    ):
        return good(value, kind) if found == kind else number(value.cast("string"), kind)
    if isinstance(found, FLOATS) and isinstance(kind, FLOATS):
        finite = F.when(F.abs(value.cast("double")) < F.lit(float("inf")), value.try_cast(kind))
        return checked(
            F.when(F.abs(finite.cast("double")) < F.lit(float("inf")), finite), Code.NUMBER_OUT_OF_RANGE, kind
        )
    if isinstance(found, INTEGERS) and shape.epoch:
        return epoch(value.cast("string"), shape.epoch, kind)
    if found == kind and isinstance(kind, DATETIMES):
        return F.when(in_range(value, kind), good(value, kind)).otherwise(
            failed(Code.TIMESTAMP_OUT_OF_RANGE, kind)
        )
    return good(value, kind) if found == kind else failed(Code.TYPE_MISMATCH, kind)


def _from_millis(value: Column, kind: T.DataType) -> Column:
    inside = value.between(FIRST_MICROS // 1000, LAST_MICROS // 1000)
    return checked(F.timestamp_micros(F.when(inside, value * 1000)), Code.TIMESTAMP_OUT_OF_RANGE, kind)


def _from_string(value: Column, shape: Shape) -> Column:
    kind = shape.data_type
    if isinstance(kind, T.StringType):
        return F.when(F.is_valid_utf8(value), good(value, kind)).otherwise(failed(Code.INVALID_UTF8, kind))
    if isinstance(kind, DATETIMES):
        return datetime_text(value, kind)
    return failed(Code.TYPE_MISMATCH, kind)
