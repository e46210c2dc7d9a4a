"""The fast lane of CSV: a line without quotes, in the usual forms of its columns.

One pattern, made of the schema, proves the whole line: its characters, the number of its fields, and of
each field that the cast reads it exactly. Then the line is cut at its delimiters. What the pattern does
not take goes to `csv`, which decides.
"""

from __future__ import annotations

from operator import and_
from string import ascii_letters, digits

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.config.decoding import CsvDialect
from tidemark.transform.decode.csv import literal
from tidemark.transform.decode.expressions import folded, get
from tidemark.transform.decode.json_fast import DAY, SECOND, instant_of
from tidemark.transform.decode.scalar import BASE64
from tidemark.transform.fields import FLOATS, INTEGERS, Field, Shape

_IN_VALUES = frozenset(ascii_letters + digits + "+-./:= ")
"""Characters of values that are no text: where one of them delimits or quotes, there is no fast lane."""
_LINE_ENDS = "\r\n"


def line_shape(fields: tuple[Field, ...], dialect: CsvDialect) -> str | None:
    """The pattern (Java's) of a line that the fast lane takes; None where it can take none.

    A line of one field may be blank, which is for `payload` to tell.
    """
    special = {dialect.delimiter, dialect.quote}
    if len(fields) < 2 or dialect.header or special & _IN_VALUES:
        return None
    if not all(f.shape.is_scalar for f in fields):
        return None
    text = f"[^{literal(dialect.quote)}{literal(dialect.delimiter)}\\r\\n]*+"
    null = dialect.null_text
    empty = None if special & set(null) or set(_LINE_ENDS) & set(null) else _verbatim(null)
    forms = []
    for f in fields:
        form = _form(f.shape)
        if form is None:
            forms.append(text)
        else:
            forms.append(f"(?:{form})" if empty is None else f"(?:{form}|{empty})")
    return f"^{literal(dialect.delimiter).join(forms)}(?:\\r\\n|\\n|\\r)?\\z"


def _verbatim(text: str) -> str:
    return "".join(literal(character) for character in text)


def _form(shape: Shape) -> str | None:
    """What the cast reads exactly; None of text, which is as it is."""
    kind = shape.data_type
    if isinstance(kind, T.StringType):
        return None
    if isinstance(kind, T.BooleanType):
        return "true|True|TRUE|false|False|FALSE"
    if isinstance(kind, INTEGERS):
        return "[+-]?[0-9]++"
    if isinstance(kind, FLOATS):
        return r"[+-]?[0-9]++(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]++)?"
    if isinstance(kind, T.DecimalType):
        # No exponent: the cast of 1e-999999999 would never end.
        whole = max(1, kind.precision - kind.scale)
        return rf"[+-]?[0-9]{{1,{whole}}}(?:\.[0-9]{{0,{kind.scale}}})?"
    if isinstance(kind, T.BinaryType):
        return BASE64.removeprefix("^").removesuffix(r"\z")
    if shape.epoch:
        return "[+-]?[0-9]{1,18}"
    if isinstance(kind, T.DateType):
        return DAY
    moment = rf"{DAY}[T ]{SECOND}(?:\.[0-9]{{1,6}})?"
    return moment if isinstance(kind, T.TimestampNTZType) else f"{moment}Z?"


def tokens_of(text: Column, shape: str, dialect: CsvDialect) -> Column:
    """The fields' texts of a line of this shape, in whole characters; NULL of another. Evaluate it once."""
    delimiter = dialect.delimiter
    # A tab is itself in a pattern: where Java sees but one character, it needs no pattern to cut a text.
    cut = F.split(text, delimiter if delimiter == "\t" else literal(delimiter))
    return F.when(text.rlike(shape) & F.is_valid_utf8(text), cut)


def values_of(tokens: Column, fields: tuple[Field, ...], dialect: CsvDialect) -> list[Column]:
    """The typed values of a line's tokens."""
    values = []
    for at, f in enumerate(fields):
        token = _token(tokens, at, fields)
        nothing = None if f.default is None else F.lit(f.default).cast(f.shape.data_type)
        value = F.when(token == dialect.null_text, nothing).otherwise(_value(token, f.shape))
        values.append(value.alias(f.column))
    return values


def proven(tokens: Column, fast: Column, fields: tuple[Field, ...], dialect: CsvDialect) -> Column:
    """Whether a line's typed values, the STRUCT `fast`, are what it says."""
    rights = [tokens.isNotNull()]
    for at, f in enumerate(fields):
        given = get(fast, f.column).isNotNull()
        needed = f.required or f.default is not None
        rights.append(given if needed else given | (_token(tokens, at, fields) == dialect.null_text))
    return folded(and_, rights)


def _token(tokens: Column, at: int, fields: tuple[Field, ...]) -> Column:
    """The text of a field; the last one without the line's end."""
    token = F.get(tokens, F.lit(at))
    if at < len(fields) - 1:
        return token
    ended = token.endswith("\n") | token.endswith("\r")
    return F.when(ended, F.btrim(token, F.lit(_LINE_ENDS))).otherwise(token)


def _value(token: Column, shape: Shape) -> Column:
    """The value of text in the form of its type; NULL where there is none, as of February 30."""
    kind = shape.data_type
    if isinstance(kind, T.StringType):
        return token
    if isinstance(kind, T.BooleanType):
        return F.lower(token) == "true"
    if isinstance(kind, T.BinaryType):
        return F.unbase64(token)
    if shape.epoch:
        return instant_of(token.try_cast("bigint"), shape.epoch)
    if isinstance(kind, FLOATS):
        read = token.try_cast(kind)
        return F.when(F.abs(read) < F.lit(float("inf")), read)
    if isinstance(kind, T.TimestampType):
        # Without an offset it is UTC, whatever the session's zone.
        return F.when(token.endswith("Z"), token).otherwise(F.concat(token, F.lit("Z"))).try_cast(kind)
    return token.try_cast(kind)
