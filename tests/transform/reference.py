"""A second decoder, in plain Python and by the rules alone: what a JSON or CSV payload has to come to.

Slow, small, and written without a look at how Spark does it, so that the two do not share their faults.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

Kind = tuple[Any, ...]
"""("int", lowest, highest), ("decimal", precision, scale), ("epoch", digits below the second), ("array",
kind), ("map", kind), ("struct", {name: kind}), or a name alone."""

BLANK = " \t\r\n"
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
    r"(?:([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)
_FAR = re.compile(r"(?:[+-][0-9]{4,}|[0-9]{5,})-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,Zz+-]*)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class Number(str):
    """A number's own text."""


class Object(list[tuple[str, Any]]):
    """An object's members in order, the repeated ones too."""


class Wrong(Exception):
    """The failure codes of a value: several where it is a container."""


def _constant(name: str) -> Any:
    raise ValueError(name)


_JSON = json.JSONDecoder(
    object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=_constant
)


def of_json(payload: bytes, schema: Mapping[str, Kind]) -> frozenset[str] | dict[str, Any]:
    """The row without its NULLs, or the codes of the faults, any of which may come first."""
    text = _text(payload)
    if isinstance(text, frozenset):
        return text
    body = text.strip(BLANK)
    if body in ("", "null"):
        return frozenset({"EMPTY_PAYLOAD"})
    try:
        found, end = _JSON.raw_decode(body)
    except (ValueError, RecursionError):
        return frozenset({"MALFORMED_JSON"})
    if end != len(body):
        return frozenset({"TRAILING_DATA" if isinstance(found, Object) else "MALFORMED_JSON"})
    if any("\ud800" <= c <= "\udfff" for text in _texts(found) for c in text):
        return frozenset({"INVALID_UTF8"})
    if not isinstance(found, Object):
        return frozenset({"NOT_AN_OBJECT"})
    if _repeats(found):
        return frozenset({"DUPLICATE_KEY"})
    given = dict(found)
    return _row({name: given.get(name) for name in schema}, schema)


def of_csv(payload: bytes, schema: Mapping[str, Kind], delimiter: str) -> frozenset[str] | dict[str, Any]:
    """As `of_json`, of one record by RFC 4180."""
    text = _text(payload)
    if isinstance(text, frozenset):
        return text
    if text.strip(BLANK) in ("", "null") and not (delimiter in BLANK and delimiter in text):
        return frozenset({"EMPTY_PAYLOAD"})
    fields = _fields(text, delimiter)
    if fields is None:
        return frozenset({"MALFORMED_CSV"})
    if len(fields) != len(schema):
        return frozenset({"COLUMN_COUNT"})
    return _row(dict(zip(schema, fields, strict=True)), schema, csv=True)


def _text(payload: bytes) -> frozenset[str] | str:
    try:
        return payload.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return frozenset({"INVALID_UTF8"})


def _row(
    given: Mapping[str, Any], schema: Mapping[str, Kind], *, csv: bool = False
) -> frozenset[str] | dict[str, Any]:
    row, codes = {}, set()
    for name, kind in schema.items():
        if given[name] is None:
            continue
        try:
            row[name] = _of_text(given[name], kind) if csv else value(given[name], kind)
        except Wrong as wrong:
            codes.update(wrong.args)
    return frozenset(codes) or row


def _texts(found: Any) -> list[str]:
    if isinstance(found, Object):
        return [t for key, each in found for t in (key, *_texts(each))]
    if isinstance(found, list):
        return [t for each in found for t in _texts(each)]
    return [found] if isinstance(found, str) else []


def _repeats(found: Any) -> bool:
    if isinstance(found, Object):
        keys = [key for key, _ in found]
        return len(keys) != len(set(keys)) or any(_repeats(each) for _, each in found)
    return isinstance(found, list) and any(map(_repeats, found))


def _fields(text: str, delimiter: str) -> list[str | None] | None:
    """The fields of one record, None for an empty one without quotes; None where it is no record."""
    found: list[str | None] = []
    rest = text
    while True:
        quoted = re.match(r'"((?:[^"]|"")*)"', rest)
        if quoted:
            found.append(quoted[1].replace('""', '"'))
            rest = rest[quoted.end() :]
        else:
            bare = re.match(rf'[^"\r\n{re.escape(delimiter)}]*', rest)
            assert bare is not None
            found.append(bare[0] or None)
            rest = rest[bare.end() :]
        if rest in ("", "\n", "\r", "\r\n"):
            return found
        if not rest.startswith(delimiter):
            return None
        rest = rest[len(delimiter) :]


def _of_text(text: str, kind: Kind) -> Any:
    if kind[0] == "text":
        return text
    if kind[0] == "boolean":
        if text.lower() not in ("true", "false"):
            raise Wrong("TYPE_MISMATCH")
        return text.lower() == "true"
    if _NUMBER.fullmatch(text) and kind[0] not in ("timestamp", "local", "date"):
        return value(Number(text), kind)
    if kind[0] in ("int", "decimal", "double", "float"):
        raise Wrong("TYPE_MISMATCH")
    return value(text, kind)


def value(found: Any, kind: Kind) -> Any:
    """A JSON value as a column has it: times as microseconds, dates as text. Raises Wrong."""
    name = kind[0]
    if name == "decimal" and isinstance(found, str) and _NUMBER.fullmatch(found):
        found = Number(found)
    number = isinstance(found, Number)
    if name == "text":
        return found if isinstance(found, str) and not number else written(found)
    if name in ("array", "map", "struct"):
        return _container(found, kind)
    if name == "boolean" and isinstance(found, bool):
        return found
    if name in ("timestamp", "local", "epoch") and isinstance(found, str) and not number:
        return _moment(found, local=name == "local")
    if name == "date" and isinstance(found, str) and not number:
        return _date(found)
    if not number or name in ("boolean", "timestamp", "local", "date"):
        raise Wrong("TYPE_MISMATCH")
    if name == "double":
        return _finite(float(found))
    if name == "float":
        return _finite(_float(found))
    return _exact(Decimal(found), kind)


def _container(found: Any, kind: Kind) -> Any:
    name, inner = kind
    if isinstance(found, Object) != (name != "array") or not isinstance(found, list):
        raise Wrong("TYPE_MISMATCH")
    if name == "array":
        return list(_each((at, each, inner) for at, each in enumerate(found)).values())
    if name == "map":
        return _each((key, each, inner) for key, each in found)
    given = dict(found)
    return _each((key, given.get(key), of) for key, of in inner.items())


def _each(values: Iterable[tuple[Any, Any, Kind]]) -> dict[Any, Any]:
    """The values of a container by key or place. Raises Wrong with the codes of all that are wrong."""
    found, codes = {}, []
    for key, each, kind in values:
        try:
            found[key] = None if each is None else value(each, kind)
        except Wrong as wrong:
            codes += wrong.args
    if codes:
        raise Wrong(*codes)
    return found


def _exact(number: Decimal, kind: Kind) -> Any:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    exponent += len(text) - len(text.rstrip("0"))
    text = text.rstrip("0")
    if not text:
        return Decimal(0) if kind[0] == "decimal" else 0
    whole = int(text) * (-1 if sign else 1)
    if kind[0] == "decimal":
        if -exponent > kind[2] or len(text) + exponent > kind[1] - kind[2]:
            raise Wrong("DECIMAL_PRECISION")
        return Decimal(whole).scaleb(exponent)
    if kind[0] == "epoch":
        if len(text) + exponent > 20:
            raise Wrong("TIMESTAMP_OUT_OF_RANGE")
        shift = exponent + kind[1]
        return _in_range(whole * 10**shift if shift >= 0 else whole // 10 ** min(-shift, 400))
    if exponent < 0:
        raise Wrong("TYPE_MISMATCH")
    if len(text) + exponent > 19 or not kind[1] <= whole * 10**exponent <= kind[2]:
        raise Wrong("NUMBER_OUT_OF_RANGE")
    return whole * 10**exponent


def _finite(number: float) -> float:
    if math.isinf(number):
        raise Wrong("NUMBER_OUT_OF_RANGE")
    return number


def _float(text: str) -> float:
    """The nearest number of 32 bits, straight from the text: by way of a double some come out as another."""
    if math.isinf(float(text)):
        return math.inf
    try:
        near = struct.unpack("<I", struct.pack("<f", abs(float(text))))[0]
    except OverflowError:
        return math.inf
    exact = abs(Decimal(text))
    steps = [n for n in (near, near - 1, near + 1) if 0 <= n < 0x7F800000]
    best = min(steps, key=lambda n: abs(Decimal(_of_bits(n)) - exact))
    return math.copysign(_of_bits(best), float(text))


def _of_bits(number: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", number))[0])


def _moment(text: str, *, local: bool) -> int:
    parts = _TIME.fullmatch(text)
    if parts is None or (local and (parts[6] or parts[7])):
        raise Wrong("TIMESTAMP_OUT_OF_RANGE" if _FAR.fullmatch(text) else "TIMESTAMP_UNPARSABLE")
    day, hour, minute, second, fraction, _, sign, hours, minutes = parts.groups(default="")
    ahead = int(hours or 0) * 60 + int(minutes or 0)
    if int(minutes or 0) > 59 or ahead > 18 * 60:
        raise Wrong("TIMESTAMP_UNPARSABLE")
    clock = (int(hour or 0), int(minute or 0), int(second or 0))
    micros = _micros(day, clock) + int(f"{fraction}000000"[:6])
    return _in_range(micros - (-ahead if sign == "-" else ahead) * 60_000_000)


def _date(text: str) -> str:
    if _DATE.fullmatch(text) is None:
        raise Wrong("TIMESTAMP_OUT_OF_RANGE" if _FAR.fullmatch(text) else "TIMESTAMP_UNPARSABLE")
    _in_range(_micros(text, (0, 0, 0)))
    return text


def _micros(day: str, clock: tuple[int, int, int]) -> int:
    """Of Unix time. Python has no year 0, which is as long as the year 400."""
    year, month, of_month = (int(part) for part in day.split("-"))
    try:
        passed = datetime(year or 400, month, of_month, *clock) - datetime(1970, 1, 1)
    except ValueError:
        raise Wrong("TIMESTAMP_UNPARSABLE") from None
    days = passed.days - (0 if year else 146_097)
    return (days * 86_400 + passed.seconds) * 1_000_000


def _in_range(micros: int) -> int:
    if not FIRST <= micros <= LAST:
        raise Wrong("TIMESTAMP_OUT_OF_RANGE")
    return micros


def written(found: Any) -> str:
    """A value as JSON text, numbers as they came."""
    if isinstance(found, Number):
        return str(found)
    if isinstance(found, Object):
        return "{" + ",".join(f"{written(key)}:{written(each)}" for key, each in found) + "}"
    if isinstance(found, list):
        return "[" + ",".join(map(written, found)) + "]"
    # Beyond the first plane as surrogates, as Spark has it.
    text = json.dumps(found, ensure_ascii=False)
    return "".join(c if c <= "\uffff" else json.dumps(c)[1:-1].upper().replace("\\U", "\\u") for c in text)
