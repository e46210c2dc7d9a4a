"""Text to one scalar value: exact, or the failure code that says why not.

Integers and decimals never pass through a double. An exponent of any size is decided by where the point
stands, never by writing out its digits.
"""

from __future__ import annotations

import re
import struct
from binascii import a2b_base64
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isfinite, nextafter
from typing import NamedTuple

from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.fields import FLOATS, INTEGERS, Field, Shape

Value = str | int | float | bool | bytes | Decimal | date | datetime
"""DATE is a `date`, TIMESTAMP a `datetime` in UTC, TIMESTAMP_NTZ one without a zone."""
Reader = Callable[[str], Value | Code]

CSV_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS: dict[str, Value | Code] = {"true": True, "false": False}
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?)([0-9]+))?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})[0-9]{0,3})?)?"
    r"([Zz]|([+-])([0-9]{2}):?([0-9]{2})?)?)?"
)
_FAR_YEAR = re.compile(r"(?:[+-][0-9]{4,}|[0-9]{5,})-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,Zz+-]*)?")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

_BITS: dict[type[T.DataType], int] = {T.ByteType: 7, T.ShortType: 15, T.IntegerType: 31, T.LongType: 63}
FIRST_MICROS = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z."""
LAST_MICROS = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z."""
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
EPOCH_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NTZ = datetime(1970, 1, 1)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097
"""Days of 400 years, after which the calendar repeats."""
_FAR = 10**18


class _Digits(NamedTuple):
    """A number: 0.`digits` shifted left by `point` places. Zero has no digits."""

    negative: bool
    digits: str
    point: int


def number(text: str, kind: T.DataType) -> Value | Code:
    """The value of a number's text (JSON's grammar; leading zeros, `+`, `1.` and `.5` allowed)."""
    if isinstance(kind, FLOATS):
        value = float(text)
        if isinstance(kind, T.FloatType):
            value = _single(value, text)
        return value if isfinite(value) else Code.NUMBER_OUT_OF_RANGE
    if isinstance(kind, T.DecimalType):
        return _decimal(_digits(text), kind)
    bits = _BITS[type(kind)]
    try:
        # The usual one: a text with a fraction or an exponent is not a literal of Python's int.
        whole = int(text) if len(text) < 20 else _whole(_digits(text))
    except ValueError:
        whole = _whole(_digits(text))
    if isinstance(whole, Code):
        return whole
    return whole if -(1 << bits) <= whole < 1 << bits else Code.NUMBER_OUT_OF_RANGE


def _digits(text: str) -> _Digits:
    found = _NUMBER.fullmatch(text)
    assert found is not None
    sign, whole, fraction, way, power = found.groups()
    exponent = 0
    if power:
        power = power.lstrip("0")
        exponent = _FAR if len(power) > 18 else int(power or "0")
        exponent = -exponent if way == "-" else exponent
    digits = whole + (fraction or "")
    significant = digits.lstrip("0")
    leading = len(digits) - len(significant)
    return _Digits(sign == "-", significant.rstrip("0"), len(whole) + exponent - leading)


def _whole(n: _Digits) -> int | Code:
    if not n.digits:
        return 0
    if len(n.digits) > n.point:
        return Code.TYPE_MISMATCH
    if n.point > 19:
        return Code.NUMBER_OUT_OF_RANGE
    value = int(n.digits.ljust(n.point, "0"))
    return -value if n.negative else value


def _decimal(n: _Digits, kind: T.DecimalType) -> Decimal | Code:
    if not n.digits:
        return Decimal((0, (0,), -kind.scale))
    fractional, integral = max(0, len(n.digits) - n.point), max(0, n.point)
    if fractional > kind.scale or integral > kind.precision - kind.scale:
        return Code.DECIMAL_PRECISION
    digits = n.digits.ljust(n.point + kind.scale, "0")
    return Decimal((int(n.negative), tuple(map(int, digits)), -kind.scale))


def _single(value: float, text: str) -> float:
    """The nearest float of 32 bits. Rounding a rounded double again would miss it, so the double is made odd
    where it is not exact: then it is not a midpoint, and lies on the number's own side of one.
    """
    if value == 0 or not isfinite(value):
        return value
    exact = Decimal(text)
    if exact != Decimal(value) and struct.pack("<d", value)[0] % 2 == 0:
        value = nextafter(value, inf if exact > Decimal(value) else -inf)
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return inf


def single(value: float) -> float | Code:
    """A double as a float of 32 bits."""
    try:
        narrow = float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return Code.NUMBER_OUT_OF_RANGE
    return narrow if isfinite(narrow) else Code.NUMBER_OUT_OF_RANGE


def epoch(text: str, unit: str) -> datetime | Code:
    """An epoch number's text as a TIMESTAMP. Its ninth decimal place is rounded; what is then below the
    microsecond is cut.
    """
    n = _digits(text)
    if not n.digits or n.point < -20:
        return _EPOCH
    if n.point > 20:
        return Code.TIMESTAMP_OUT_OF_RANGE
    shown = "0" * -n.point + n.digits if n.point < 0 else n.digits.ljust(n.point, "0")
    places = max(0, n.point)
    nanos = int((shown[:places] + shown[places : places + 9].ljust(9, "0")) or "0")
    nanos += shown[places + 9 : places + 10] >= "5"
    nanos = -nanos if n.negative else nanos
    return moment(nanos * EPOCH_MICROS[unit] // 10**9)


def epoch_range(unit: str) -> tuple[int, int, int]:
    """Microseconds of the unit, and the first and last epoch number in it that a TIMESTAMP can hold."""
    micros = EPOCH_MICROS[unit]
    return micros, -(-FIRST_MICROS // micros), LAST_MICROS // micros


def moment(micros: int) -> datetime | Code:
    """The TIMESTAMP of microseconds since 1970."""
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        return Code.TIMESTAMP_OUT_OF_RANGE
    return _EPOCH + timedelta(microseconds=micros)


def local_moment(micros: int) -> datetime | Code:
    """The TIMESTAMP_NTZ of microseconds since 1970."""
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        return Code.TIMESTAMP_OUT_OF_RANGE
    return _EPOCH_NTZ + timedelta(microseconds=micros)


def day(days: int) -> date | Code:
    """The DATE of days since 1970."""
    if not FIRST_DAY <= days <= LAST_DAY:
        return Code.TIMESTAMP_OUT_OF_RANGE
    return date.fromordinal(days + _EPOCH_ORDINAL)


def datetime_value(text: str, kind: T.DataType) -> date | datetime | Code:
    """ISO-8601 text as a DATE, TIMESTAMP or TIMESTAMP_NTZ, whatever the Spark session's zone.

    A timestamp without an offset is UTC, a date alone is its midnight. `T` may be a space and, as in
    RFC 3339, `t` and `z` may be small. Digits below the microsecond are cut. A TIMESTAMP_NTZ has no
    offset.
    """
    found = (_DATE if isinstance(kind, T.DateType) else _TIMESTAMP).fullmatch(text)
    if found is None:
        far = _FAR_YEAR.fullmatch(text)
        return Code.TIMESTAMP_UNPARSABLE if far is None else Code.TIMESTAMP_OUT_OF_RANGE
    days = _days(*map(int, found.group(1, 2, 3)))
    if days is None:
        return Code.TIMESTAMP_UNPARSABLE
    if isinstance(kind, T.DateType):
        return day(days)
    micros = _micros_of_day(found)
    if micros is None:
        return Code.TIMESTAMP_UNPARSABLE
    total = days * 86_400_000_000 + micros
    if isinstance(kind, T.TimestampNTZType):
        return Code.TIMESTAMP_UNPARSABLE if found.group(8) else local_moment(total)
    return moment(total)


def _days(year: int, month: int, day_: int) -> int | None:
    """Days since 1970; None for an invalid day. The year 0 is one, and too early."""
    try:
        ordinal = date(year or 400, month, day_).toordinal()
    except ValueError:
        return None
    return ordinal - _EPOCH_ORDINAL - (0 if year else _CYCLE_DAYS)


def _micros_of_day(found: re.Match[str]) -> int | None:
    """Microseconds since the day's midnight, less the offset; None for an invalid time or offset."""
    hour, minute, second, fraction, way, hours, minutes = found.group(4, 5, 6, 7, 9, 10, 11)
    if hour is None:
        return 0
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        return None
    at = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    if way is not None:
        offset = int(hours) * 60 + int(minutes or 0)
        if offset > 18 * 60 or int(minutes or 0) > 59:
            return None
        at += -60 * offset if way == "+" else 60 * offset
    return at * 1_000_000 + int((fraction or "0").ljust(6, "0"))


def binary(text: str) -> bytes | Code:
    """Base64 text, padded, without line breaks."""
    return a2b_base64(text) if _BASE64.fullmatch(text) else Code.TYPE_MISMATCH


def reader_of(shape: Shape) -> Reader:
    """What reads a text in which everything is text, as a CSV field is."""
    kind = shape.data_type
    if not shape.is_scalar:
        return lambda _: Code.TYPE_MISMATCH
    if isinstance(kind, T.StringType):
        return lambda text: text
    if isinstance(kind, T.BooleanType):
        return lambda text: _BOOLEANS.get(text.lower(), Code.TYPE_MISMATCH)
    if isinstance(kind, T.BinaryType):
        return binary
    if isinstance(kind, (*INTEGERS, *FLOATS, T.DecimalType)):
        return lambda text: number(text, kind) if CSV_NUMBER.fullmatch(text) else Code.TYPE_MISMATCH
    unit = shape.epoch
    if unit is None:
        return lambda text: datetime_value(text, kind)
    return lambda text: epoch(text, unit) if CSV_NUMBER.fullmatch(text) else datetime_value(text, kind)


def default_of(field: Field) -> Value | None:
    """The field's default, which the plan has checked, as a value of its column."""
    default, kind = field.default, field.shape.data_type
    if default is None:
        return None
    if isinstance(kind, (*FLOATS, T.DecimalType)):
        value = number(str(default), kind)
    elif isinstance(kind, T.DateType):
        value = datetime_value(str(default), kind)
    else:
        return default
    if isinstance(value, Code):
        raise ValueError(f"the default {default!r} of field {field.name} is not {field.shape.expected}")
    return value
