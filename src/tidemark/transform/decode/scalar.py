"""Text to one scalar value: exact, or NULL with the failure code that says why.

Every cast here is a `try_cast`: under ANSI, Spark 4's default, a plain cast of payload data raises and
takes the batch with it. Numbers never pass through a double on their way to an integer or decimal.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.expressions import bind
from tidemark.transform.fields import FLOATS, INTEGERS, Shape

CSV_NUMBER = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\z"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
TIMESTAMP = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:(?<=:[0-9]{2}:[0-9]{2})(\.[0-9]{1,6})[0-9]{0,3})?"
    r"(?:([Zz])|([+-][0-9]{2}):?([0-9]{2})?)?)?\z"
)
OFFSET = r"[Tt ].*(?:[Zz]|[+-][0-9]{2}:?(?:[0-9]{2})?)\z"
FAR_YEAR = r"^(?:[+-][0-9]{4,}|[0-9]{5,})-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,Zz+-]*)?\z"
BASE64 = r"^(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\z"

FIRST_MICROS = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z."""
LAST_MICROS = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z."""
EPOCH_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def outcome(value: Column, code: Column, data_type: T.DataType) -> Column:
    """STRUCT<value, code>: one of the two is NULL."""
    return F.struct(value.cast(data_type).alias("value"), code.cast("string").alias("code"))


def failed(code: Code, data_type: T.DataType) -> Column:
    return outcome(F.lit(None), F.lit(code.value), data_type)


def good(value: Column, data_type: T.DataType) -> Column:
    return outcome(value, F.lit(None), data_type)


def checked(value: Column, code: Code, data_type: T.DataType) -> Column:
    """The value, or the code where it is NULL."""
    return bind(value, lambda v: outcome(v, F.when(v.isNull(), F.lit(code.value)), data_type))


def number(text: Column, data_type: T.DataType) -> Column:
    """A number's text (JSON's grammar; leading zeros and `+` allowed) as an outcome."""
    if isinstance(data_type, FLOATS):
        fits = text.try_cast(data_type)
        return checked(F.when(~_infinite(fits), fits), Code.NUMBER_OUT_OF_RANGE, data_type)
    return bind(_digits(text), lambda d: _exact(text, d, data_type))


def _infinite(value: Column) -> Column:
    return F.abs(value.cast("double")) == F.lit(float("inf"))


def _digits(text: Column) -> Column:
    """STRUCT<negative, digits, point>: the number is 0.digits shifted left by `point` places."""
    whole = F.regexp_extract(text, r"^[+-]?([0-9]*)", 1)
    fraction = F.regexp_extract(text, r"^[+-]?[0-9]*\.([0-9]*)", 1)
    exponent = F.regexp_extract(text, r"[eE]([+-]?[0-9]+)\z", 1)
    bounded = (
        F.when(exponent == "", F.lit(0))
        .when(
            exponent.try_cast("int").isNotNull(),
            F.greatest(F.lit(-100_000), F.least(F.lit(100_000), exponent.try_cast("int"))),
        )
        .when(exponent.startswith("-"), F.lit(-100_000))
        .otherwise(F.lit(100_000))
    )
    digits = F.concat(whole, fraction)
    significant = F.regexp_replace(digits, "^0+", "")
    leading = F.length(digits) - F.length(significant)
    return F.struct(
        text.startswith("-").alias("negative"),
        F.regexp_replace(significant, r"0+\z", "").alias("digits"),
        (F.length(whole) + bounded - leading).alias("point"),
    )


def _exact(text: Column, d: Column, data_type: T.DataType) -> Column:
    digits, point = d.getField("digits"), d.getField("point")
    zero = digits == ""
    fractional = F.greatest(F.lit(0), F.length(digits) - point)
    integral = F.greatest(F.lit(0), point)
    if isinstance(data_type, T.DecimalType):
        fits = (fractional <= data_type.scale) & (integral <= data_type.precision - data_type.scale)
        return (
            F.when(zero, good(F.lit(0), data_type))
            .when(fits, checked(text.try_cast(data_type), Code.DECIMAL_PRECISION, data_type))
            .otherwise(failed(Code.DECIMAL_PRECISION, data_type))
        )
    sign = F.when(d.getField("negative"), F.lit("-")).otherwise(F.lit(""))
    plain = F.concat(sign, F.rpad(digits, point, F.lit("0")))
    return (
        F.when(zero, good(F.lit(0), data_type))
        .when(fractional > 0, failed(Code.TYPE_MISMATCH, data_type))
        .when(point > 19, failed(Code.NUMBER_OUT_OF_RANGE, data_type))
        .otherwise(checked(plain.try_cast(data_type), Code.NUMBER_OUT_OF_RANGE, data_type))
    )


def epoch(text: Column, unit: str, data_type: T.DataType) -> Column:
    """An epoch number's text as a TIMESTAMP outcome; digits below the microsecond are cut."""
    return bind(_digits(text), lambda d: _instant_of(text, d, unit, data_type))


def _instant_of(text: Column, d: Column, unit: str, data_type: T.DataType) -> Column:
    """Far exponents are settled by the point alone: a cast of `1e-999999999` would never end."""
    point = d.getField("point")
    exact = text.try_cast("decimal(27,9)")
    micros = F.floor(exact * F.lit(EPOCH_MICROS[unit]).cast("decimal(7,0)")).cast("decimal(38,0)")
    inside = F.when(micros.between(FIRST_MICROS, LAST_MICROS), micros.try_cast("bigint"))
    return (
        F.when((d.getField("digits") == "") | (point < -20), good(F.timestamp_micros(F.lit(0)), data_type))
        .when(point > 20, failed(Code.TIMESTAMP_OUT_OF_RANGE, data_type))
        .otherwise(checked(F.timestamp_micros(inside), Code.TIMESTAMP_OUT_OF_RANGE, data_type))
    )


def datetime_text(text: Column, data_type: T.DataType) -> Column:
    """ISO-8601 text as a DATE, TIMESTAMP or TIMESTAMP_NTZ outcome, whatever the Spark session's zone.

    A timestamp without an offset is UTC, a date alone is its midnight. `T` may be a space and, as in
    RFC 3339, `t` and `z` may be small. Digits below the microsecond are cut. A TIMESTAMP_NTZ has no
    offset.
    """
    shape = DATE if isinstance(data_type, T.DateType) else TIMESTAMP
    shaped = text.rlike(shape)
    if isinstance(data_type, T.TimestampNTZType):
        shaped = shaped & ~text.rlike(OFFSET)
    far = text.rlike(FAR_YEAR)
    return bind(
        F.when(shaped, instant(text, data_type)),
        lambda v: (
            F.when(
                v.isNull(),
                F.when(far, failed(Code.TIMESTAMP_OUT_OF_RANGE, data_type)).otherwise(
                    failed(Code.TIMESTAMP_UNPARSABLE, data_type)
                ),
            )
            .when(in_range(v, data_type), good(v, data_type))
            .otherwise(failed(Code.TIMESTAMP_OUT_OF_RANGE, data_type))
        ),
    )


def instant(text: Column, data_type: T.DataType) -> Column:
    """The value of text that has the shape of DATE or TIMESTAMP; NULL for a day or hour that is none."""
    if isinstance(data_type, T.DateType):
        return text.try_cast("date")

    def part(group: int) -> Column:
        return F.regexp_extract(text, TIMESTAMP, group)

    def given(group: int, default: str) -> Column:
        return F.when(part(group) == "", F.lit(default)).otherwise(part(group))

    wall = F.concat(part(1), F.lit("T"), given(2, "00:00"), given(3, ":00"), part(4))
    if isinstance(data_type, T.TimestampNTZType):
        return wall.try_cast("timestamp_ntz")
    offset = F.when(part(6) == "", F.lit("Z")).otherwise(F.concat(part(6), F.lit(":"), given(7, "00")))
    return F.concat(wall, offset).try_cast("timestamp")


def in_range(value: Column, data_type: T.DataType) -> Column:
    """Whether a date or timestamp lies in the years 0001 to 9999, in UTC."""
    if isinstance(data_type, T.DateType):
        days = F.unix_date(value)
        return days.between(-719_162, 2_932_896)
    if isinstance(data_type, T.TimestampNTZType):
        return (value >= F.expr("TIMESTAMP_NTZ '0001-01-01 00:00:00'")) & (
            value <= F.expr("TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'")
        )
    return F.unix_micros(value).between(FIRST_MICROS, LAST_MICROS)


def from_text(text: Column, shape: Shape) -> Column:
    """A CSV field's text as an outcome: numbers and booleans are text there."""
    kind = shape.data_type
    mismatch = failed(Code.TYPE_MISMATCH, kind)
    if not shape.is_scalar:
        return mismatch
    if isinstance(kind, T.StringType):
        return good(text, kind)
    if isinstance(kind, T.BooleanType):
        return checked(
            F.when(F.lower(text) == "true", F.lit(True)).when(F.lower(text) == "false", F.lit(False)),
            Code.TYPE_MISMATCH,
            kind,
        )
    if isinstance(kind, T.BinaryType):
        return binary(text)
    if isinstance(kind, (*INTEGERS, *FLOATS, T.DecimalType)):
        return F.when(text.rlike(CSV_NUMBER), number(text, kind)).otherwise(mismatch)
    if shape.epoch:
        return F.when(text.rlike(CSV_NUMBER), epoch(text, shape.epoch, kind)).otherwise(
            datetime_text(text, kind)
        )
    return datetime_text(text, kind)


def binary(text: Column) -> Column:
    """Base64 text, padded, without line breaks."""
    value = F.when(text.rlike(BASE64), F.unbase64(text))
    return checked(value, Code.TYPE_MISMATCH, T.BinaryType())
