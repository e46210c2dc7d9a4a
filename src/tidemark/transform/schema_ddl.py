"""Spark DDL to fields, without a Spark session: `tidemark check` must work where no Spark runs."""

from __future__ import annotations

import re
from difflib import get_close_matches

from pyspark.sql import types as T

from tidemark.transform.fields import Field, Shape, array_shape, map_shape, struct_shape

_TOKEN = re.compile(r"\s+|`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\w$]+|[^\s]", re.UNICODE)

_SIMPLE: dict[str, T.DataType] = {
    "BOOLEAN": T.BooleanType(),
    "TINYINT": T.ByteType(),
    "BYTE": T.ByteType(),
    "SMALLINT": T.ShortType(),
    "SHORT": T.ShortType(),
    "INT": T.IntegerType(),
    "INTEGER": T.IntegerType(),
    "BIGINT": T.LongType(),
    "LONG": T.LongType(),
    "FLOAT": T.FloatType(),
    "REAL": T.FloatType(),
    "DOUBLE": T.DoubleType(),
    "STRING": T.StringType(),
    "BINARY": T.BinaryType(),
    "DATE": T.DateType(),
    "TIMESTAMP": T.TimestampType(),
    "TIMESTAMP_LTZ": T.TimestampType(),
    "TIMESTAMP_NTZ": T.TimestampNTZType(),
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_KNOWN = (*_SIMPLE, *_DECIMALS, "ARRAY", "MAP", "STRUCT")


class DdlError(ValueError):
    """The DDL is wrong; the message says what was read and what was expected."""


def fields_from_ddl(ddl: str) -> tuple[Field, ...]:
    """Columns of a Spark DDL text such as ``id INT NOT NULL, `a b` ARRAY<STRING>``. Raises `DdlError`."""
    tokens = [t for t in _TOKEN.findall(ddl) if not t.isspace()]
    reader = _Reader(tokens)
    if reader.peek() is None:
        raise DdlError("the schema is empty")
    fields = reader.fields(until=None, colon=False)
    return fields


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._path: list[str] = []

    def peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def take(self, *wanted: str) -> str:
        token = self.peek()
        if token is None or (wanted and token.upper() not in wanted):
            expected = " or ".join(wanted) or "a name or type"
            raise DdlError(f"expected {expected}, found {token or 'the end'} (word {self._at + 1})")
        self._at += 1
        return token

    def accept(self, *words: str) -> bool:
        upcoming = [t.upper() for t in self._tokens[self._at : self._at + len(words)]]
        if upcoming != list(words):
            return False
        self._at += len(words)
        return True

    def fields(self, *, until: str | None, colon: bool) -> tuple[Field, ...]:
        found: list[Field] = []
        while True:
            if until is not None and self.accept(until):
                return tuple(found)
            found.append(self._field(colon=colon))
            if self.accept(","):
                continue
            if until is None:
                if self.peek() is not None:
                    raise DdlError(f"expected , or the end, found {self.peek()} (word {self._at + 1})")
                return tuple(found)
            self.take(until)
            return tuple(found)

    def _field(self, *, colon: bool) -> Field:
        name = self._name()
        if colon or self.peek() == ":":
            self.accept(":")
        self._path.append(name)
        shape = self._type()
        path = ".".join(self._path)
        self._path.pop()
        required, comment = False, None
        while True:
            if self.accept("NOT", "NULL"):
                required = True
            elif self.accept("COMMENT"):
                comment = self.take()[1:-1]
            elif self.accept("DEFAULT"):
                raise DdlError(
                    f"a schema has no DEFAULT (word {self._at}); write fields.{path}.default instead"
                )
            else:
                return Field(name, name, shape, required=required, comment=comment)

    def _name(self) -> str:
        token = self.take()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"[\w$]+", token):
            raise DdlError(
                f"expected a column name, found {token} (word {self._at}); quote it with backticks"
            )
        return token

    def _type(self) -> Shape:
        word = self.take().upper()
        if word in _SIMPLE:
            return Shape(_SIMPLE[word])
        if word in _DECIMALS:
            return Shape(self._decimal())
        if word == "ARRAY":
            self.take("<")
            element = self._type()
            self.take(">")
            return array_shape(element)
        if word == "MAP":
            self.take("<")
            key = self._type()
            if not isinstance(key.data_type, T.StringType):
                raise DdlError(f"a MAP's key is STRING, found {key.expected}: other keys are not in JSON")
            self.take(",")
            value = self._type()
            self.take(">")
            return map_shape(value)
        if word == "STRUCT":
            self.take("<")
            return struct_shape(self.fields(until=">", colon=True))
        near = get_close_matches(word, _KNOWN, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KNOWN)}"
        raise DdlError(f"type {word} is not supported (word {self._at}); {hint}")

    def _decimal(self) -> T.DecimalType:
        precision, scale = 10, 0
        if self.accept("("):
            precision = self._number()
            if self.accept(","):
                scale = self._number()
            self.take(")")
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise DdlError(f"DECIMAL({precision},{scale}): the precision is 1 to 38, the scale not above it")
        return T.DecimalType(precision, scale)

    def _number(self) -> int:
        token = self.take()
        if not token.isdigit():
            raise DdlError(f"expected a number, found {token} (word {self._at})")
        return int(token)
