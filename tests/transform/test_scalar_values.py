"""Text to one value: exact, or with the code that says why not."""

from __future__ import annotations

import struct
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from tidemark.transform.decode.scalar import datetime_value, default_of, epoch, number, reader_of
from tidemark.transform.fields import Field, Shape
from tidemark.transform.schema_ddl import fields_from_ddl

M, R, P = "TYPE_MISMATCH", "NUMBER_OUT_OF_RANGE", "DECIMAL_PRECISION"
U, O = "TIMESTAMP_UNPARSABLE", "TIMESTAMP_OUT_OF_RANGE"  # noqa: E741
TEXTS: dict[str, dict[str, Any]] = {
    "TINYINT": {"127": 127, "128": R, "-128": -128, "-129": R, "+5": 5, "007": 7, "1.0": 1, "1e1": 10}
    | {"-0": 0, "1.5": M, "1e-1": M}
    | {"": M, " 1": M, "1_0": M, "0x1": M, "1L": M, "١": M, ".": M, "1e": M, "--1": M},
    "BIGINT": {"9223372036854775807": 2**63 - 1, "9223372036854775808": R, "-9223372036854775808": -(2**63)}
    | {"9.223372036854775807E18": 2**63 - 1, "1e19": R, "9007199254740993": 9007199254740993, "0e9999": 0}
    | {"10000000000000000000000e-22": 1, "1e-999999999": M, "1e999999999999999999999999": R},
    "DECIMAL(4,2)": {"1.5": Decimal("1.50"), "-99.99": Decimal("-99.99"), "1.500": Decimal("1.50")}
    | {"1.505": P, "100": P, "0001": Decimal("1.00"), "1e1": Decimal("10.00")}
    | {"0e999999999": Decimal("0.00"), "1e99": P}
    | {"1e-999999999": P, ".5": Decimal("0.50"), "5.": Decimal("5.00"), "NaN": M},
    "DECIMAL(38,0)": {"9" * 38: Decimal("9" * 38), "1" + "0" * 38: P, "1e37": Decimal("1" + "0" * 37)},
    "DOUBLE": {"1.5": 1.5, "1e999": R, "-1e999": R, "1e-999": 0.0, "NaN": M, "Infinity": M, "1d": M}
    | {"+.5": 0.5, "1.7976931348623157e308": 1.7976931348623157e308, "1.7976931348623159e308": R},
    "FLOAT": {"1.00000017881393432617187499": 1.0000001192092896, "16777217": 16777216.0, "3.4028236e38": R}
    | {"3.4028235677973366e38": 3.4028234663852886e38, "7.0064923216240853e-46": 0.0, "1e-99999999999": 0.0},
    "BOOLEAN": {"true": True, "FALSE": False, "tRuE": True, "1": M, "t": M, "": M},
    "BINARY": {"YWJj": b"abc", "YWI=": b"ab", "YQ==": b"a", "": b"", "YW=": M, "YWJj\n": M, "YW-_": M},
    "DATE": {"2024-02-29": date(2024, 2, 29), "2023-02-29": U, "0000-02-29": O, "0000-02-30": U}
    | {"2024-7-1": U, "10000-01-01": O, "-0001-01-01": O, "2024-07-01T00:00:00": U}
    | {"9999-12-31": date(9999, 12, 31)},
    "TIMESTAMP_NTZ": {"2024-07-01T10:00:00": datetime(2024, 7, 1, 10), "2024-07-01T10:00:00Z": U}
    | {"2024-07-01": datetime(2024, 7, 1), "2024-07-01 10:00": datetime(2024, 7, 1, 10)},
}  # fmt: skip
MOMENTS: dict[str, Any] = {
    "2024-07-01T00:30:00Z": datetime(2024, 7, 1, 0, 30),
    "2024-07-01 00:30:00": datetime(2024, 7, 1, 0, 30),
    "2024-07-01t00:30:00.5z": datetime(2024, 7, 1, 0, 30, 0, 500_000),
    "2024-07-01T00:30:00.123456789Z": datetime(2024, 7, 1, 0, 30, 0, 123_456),
    "2024-07-01T00:30:00.1234567891Z": U,
    "2024-07-01": datetime(2024, 7, 1),
    "2024-07-01T00:30+0530": datetime(2024, 6, 30, 19),
    "2024-07-01T00:30:00-08": datetime(2024, 7, 1, 8, 30),
    "2024-07-01T00:30:00+18:00": datetime(2024, 6, 30, 6, 30),
    "2024-07-01T00:30:00+18:01": U,
    "2024-07-01T00:30:00+17:60": U,
    "2024-07-01T24:00:00Z": U,
    "2024-07-01T23:59:60Z": U,
    "2024-07-01T00:30.5Z": U,
    "2024-07-01T00:30:00,5Z": U,
    "2024-07-01T00Z": U,
    "2024-07-01Z": U,
    "now": U,
    "0001-01-01T00:00:00+00:01": O,
    "0000-12-31T23:59:59-01:00": datetime(1, 1, 1, 0, 59, 59),
    "9999-12-31T23:59:59.999999Z": datetime(9999, 12, 31, 23, 59, 59, 999_999),
    "9999-12-31T23:59:59-00:01": O,
    "+12024-07-01T00:00:00Z": O,
}
KINDS = [(kind, text, wanted) for kind, texts in TEXTS.items() for text, wanted in texts.items()]


def shape_of(ddl: str) -> Shape:
    return fields_from_ddl(f"v {ddl}")[0].shape


@pytest.mark.parametrize(("kind", "text", "wanted"), KINDS)
def test_a_text_has_its_value_or_its_code_when_it_is_of_a_kind(kind: str, text: str, wanted: Any) -> None:
    found = reader_of(shape_of(kind))(text)
    assert (type(found) if isinstance(wanted, float) else None, str(found)) == (
        type(wanted) if isinstance(wanted, float) else None,
        str(wanted),
    )


@pytest.mark.parametrize(("text", "wanted"), MOMENTS.items())
def test_a_moment_is_in_utc_when_it_has_an_offset_or_none(text: str, wanted: Any) -> None:
    found = reader_of(shape_of("TIMESTAMP"))(text)
    assert found == (wanted if isinstance(wanted, str) else wanted.replace(tzinfo=UTC))


def test_a_container_is_no_text() -> None:
    assert reader_of(shape_of("ARRAY<INT>"))("[1]") == M


@pytest.mark.parametrize(
    ("text", "unit", "micros"),
    [
        ("1719793800", "s", 1_719_793_800_000_000),
        ("1.5", "ms", 1_500),
        ("-1.0000001", "us", -2),
        ("1.9999999999", "s", 2_000_000),
        ("1.9999999", "s", 1_999_999),
        ("-0.0000000005", "s", -1),
        ("-1e-30", "s", 0),
        ("0e999999999999", "us", 0),
        ("253402300799.999999", "s", 253_402_300_799_999_999),
        ("253402300800", "s", None),
        ("-62135596800", "s", -62_135_596_800_000_000),
        ("-62135596800.000001", "s", None),
        ("1e21", "us", None),
        ("1e99999999999999999999", "us", None),
    ],
)
def test_an_epoch_number_is_a_moment_when_it_is_within_the_years(
    text: str, unit: str, micros: int | None
) -> None:
    found = epoch(text, unit)
    if micros is None:
        assert found == O
    else:
        assert isinstance(found, datetime)
        elapsed = found - datetime(1970, 1, 1, tzinfo=UTC)
        assert (elapsed.days * 86_400 + elapsed.seconds) * 10**6 + elapsed.microseconds == micros


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3), st.integers(1, 40))
def test_a_float_is_the_nearest_one_when_its_text_lies_by_a_midpoint(
    value: float, nudge: int, places: int
) -> None:
    """Between two floats of 32 bits, where rounding to a double first would go astray."""
    (bits,) = struct.unpack("<I", struct.pack("<f", abs(value)))
    if bits >= 0x7F7FFFFF:
        return
    (above,) = struct.unpack("<f", struct.pack("<I", bits + 1))
    gap = Fraction(above) - Fraction(abs(value))
    shown = Fraction(abs(value)) + gap / 2 + nudge * gap / 2 ** (3 + places)
    text = f"{shown.numerator * 10**300 // shown.denominator}e-300"
    assert Fraction(int(text.removesuffix("e-300")), 10**300) == shown
    low, high = shown - Fraction(abs(value)), Fraction(above) - shown
    wanted = abs(value) if low < high or (low == high and bits % 2 == 0) else above
    assert number(text, T.FloatType()) == wanted


@given(st.datetimes(), st.integers(-18 * 60, 18 * 60))
def test_a_moment_is_the_one_that_python_reads_when_it_is_iso(local: datetime, minutes: int) -> None:
    sign, size = ("-", -minutes) if minutes < 0 else ("+", minutes)
    text = f"{local.isoformat()}{sign}{size // 60:02d}:{size % 60:02d}"
    try:
        wanted: Any = datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:
        wanted = O
    assert datetime_value(text, T.TimestampType()) == wanted


def test_a_great_number_is_decided_at_once_when_it_has_a_million_digits() -> None:
    started = time.process_time()
    for text in ("1" * 10**6, "0." + "0" * 10**6 + "1", "1e" + "9" * 10**6, "1e-" + "9" * 10**6):
        for kind in ("TINYINT", "BIGINT", "DECIMAL(38,10)", "FLOAT", "DOUBLE"):
            reader_of(shape_of(kind))(text)
        epoch(text, "s")
    assert time.process_time() - started < 2


def test_a_default_has_its_columns_type() -> None:
    kinds: dict[str, tuple[Any, Any]] = {
        "INT": (5, 5),
        "DOUBLE": (2, 2.0),
        "FLOAT": (0.1, 0.10000000149011612),
        "DECIMAL(10,2)": (1.5, Decimal("1.50")),
        "DATE": ("2024-07-01", date(2024, 7, 1)),
        "STRING": ("x", "x"),
        "BOOLEAN": (False, False),
    }
    for kind, (default, wanted) in kinds.items():
        found = default_of(Field("v", "v", shape_of(kind), default=default))
        assert (found, type(found)) == (wanted, type(wanted))
    with pytest.raises(ValueError, match="2024-02-30"):
        default_of(Field("v", "v", shape_of("DATE"), default="2024-02-30"))
