"""A pattern that most right payloads match, and hardly one that Arrow's reader refuses.

It decides nothing: it only keeps what is wrong away from what is right, so that both are read once. Unknown
fields may be of any kind, but are nested only so deep.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T

from tidemark.transform.decode.usual_forms import DAY, SECOND, pattern_of
from tidemark.transform.fields import FLOATS, Field, Shape

_BLANK = r"[ \t\r\n]*"
_COLON, _COMMA = f"{_BLANK}:{_BLANK}", f"{_BLANK},{_BLANK}"
_UNIT = r"u(?:[0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = rf'\\(?:["\\/bfnrt]|{_UNIT}|{_PAIR})'
_REST = rf'(?:[^"\\\x00-\x1f]|{_ESCAPE})*'
_STRING = f'"{_REST}"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_OFFSET = r"(?:[Zz]|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)"
_SCALAR = f"(?:{_STRING}|{_NUMBER}|true|false|null)"
_DIGITS: dict[type[T.DataType], int] = {T.ByteType: 2, T.ShortType: 4, T.IntegerType: 9, T.LongType: 18}


def screen_of(fields: tuple[Field, ...]) -> str:
    """The pattern of an object with these fields, matched byte by byte."""
    return rf"\A{_object(fields)}\z"


def _object(fields: tuple[Field, ...]) -> str:
    known = [f'"{pattern_of(f.name)}"{_COLON}(?:{_value(f.shape)}|null)' for f in fields]
    inner = f"(?:{_SCALAR}|{_listed(_SCALAR)}|{_keyed(_STRING, _SCALAR)})"
    other = f'"{_other_than([f.name.encode() for f in fields])}"'
    value = f"(?:{inner}|{_listed(inner)}|{_keyed(_STRING, inner)})"
    return _braced("|".join([*known, f"{other}{_COLON}{value}"]))


def _keyed(key: str, value: str) -> str:
    return _braced(f"{key}{_COLON}{value}")


def _braced(member: str) -> str:
    return rf"\{{{_BLANK}(?:(?:{member})(?:{_COMMA}(?:{member}))*)?{_BLANK}\}}"


def _listed(value: str) -> str:
    return rf"\[{_BLANK}(?:{value}(?:{_COMMA}{value})*)?{_BLANK}\]"


def _value(shape: Shape) -> str:
    kind = shape.data_type
    if shape.fields:
        return _object(shape.fields)
    if shape.element is not None:
        return _listed(f"(?:{_value(shape.element)}|null)")
    if isinstance(kind, T.BooleanType):
        return "true|false"
    if shape.epoch:
        return "-?(?:0|[1-9][0-9]{0,17})"
    if type(kind) in _DIGITS:
        return f"-?(?:0|[1-9][0-9]{{0,{_DIGITS[type(kind)] - 1}}})"
    if isinstance(kind, FLOATS):
        return _NUMBER
    if isinstance(kind, T.DecimalType):
        whole = kind.precision - kind.scale
        number = rf"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
        number = f"-?{number}" + (rf"(?:\.[0-9]{{1,{kind.scale}}}0*)?" if kind.scale else "")
        return f'{number}|"{number}"'
    if isinstance(kind, T.DateType):
        return f'"{DAY}"'
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        zone = f"{_OFFSET}?" if isinstance(kind, T.TimestampType) else ""
        return f'"{DAY}[Tt ]{SECOND}{zone}"'
    return _STRING


def _other_than(names: Sequence[bytes]) -> str:
    """What no name of these matches: it leaves the ways of all of them somewhere."""
    first: dict[int, list[bytes]] = {}
    for name in names:
        if name:
            first.setdefault(name[0], []).append(name[1:])
    taken = "".join(f"\\x{byte:02x}" for byte in first)
    ways = [rf'[^"\\\x00-\x1f{taken}]{_REST}', f"{_ESCAPE}{_REST}"]
    ways += [f"\\x{byte:02x}{_other_than(rest)}" for byte, rest in first.items()]
    return f"(?:{'|'.join(ways)}){'' if b'' in names else '?'}"
