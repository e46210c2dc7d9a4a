"""The strict lane of CSV: one record a payload, by RFC 4180; quotes are doubled, or escaped where an escape
character is declared.

The line's grammar is one regular expression, its fields another.
"""

from __future__ import annotations

import re

from tidemark.config.decoding import CsvDialect
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.detect import BOM
from tidemark.transform.decode.outcome import Faults, Outcome, outcome_of, rejected
from tidemark.transform.decode.scalar import Value, default_of, reader_of
from tidemark.transform.fields import Field

_LINE_END = r"(?>\r\n|\n|\r)"


class CsvText:
    """Decides of a payload's bytes what they are, and names the faults."""

    def __init__(self, fields: tuple[Field, ...], dialect: CsvDialect) -> None:
        self._fields, self._dialect = fields, dialect
        self._names = [f.name for f in fields]
        self._hides = any(f.shape.hides for f in fields)
        self._columns = [(f, reader_of(f.shape), default_of(f)) for f in fields]
        d, q = re.escape(dialect.delimiter), re.escape(dialect.quote)
        self._escape: re.Pattern[str] | None = None
        if dialect.escape and dialect.escape != dialect.quote:
            e = re.escape(dialect.escape)
            quoted = f"{q}(?:[^{q}{e}]++|{e}.)*+{q}"
            self._escape = re.compile(f"{e}(.)", re.DOTALL)
        else:
            quoted = f"{q}(?:[^{q}]++|{q}{q})*+{q}"
        bare = f"[^{q}{d}\\r\\n]*+"
        line = f"(?:{quoted}|{bare})(?:{d}(?:{quoted}|{bare}))*+"
        self._token = re.compile(f"{d}({quoted}|{bare})", re.DOTALL)
        self._line = re.compile(f"({line}){_LINE_END}?", re.DOTALL)
        self._header = re.compile(f"({line}){_LINE_END}(?=.)", re.DOTALL)

    def decide(self, payload: bytes, start: int = 0) -> Outcome:
        """What becomes of a payload whose text begins at `start`, behind its frame. A BOM does not count."""
        try:
            text = payload[start:].removeprefix(BOM).decode()
        except UnicodeDecodeError:
            return rejected(Code.INVALID_UTF8, "UTF-8 text")
        header = self._header.match(text) if self._dialect.header else None
        found = self._line.fullmatch(text, header.end() if header else 0)
        if found is None:
            return rejected(Code.MALFORMED_CSV, "one line by RFC 4180")
        tokens = self._tokens(found[1])
        if header is None and self._dialect.header and self._texts(tokens) == self._names:
            return rejected(Code.MALFORMED_CSV, "a record after the header", self._shown(found[1]))
        if header is not None:
            names = self._texts(self._tokens(header[1]))
            if sorted(names) != sorted(self._names):
                expected = f"a header that names {', '.join(self._names)}"
                return rejected(Code.MALFORMED_CSV, expected, self._shown(header[1]))
            if len(tokens) == len(names):
                tokens = [tokens[names.index(name)] for name in self._names]
        if len(tokens) != len(self._fields):
            return rejected(Code.COLUMN_COUNT, f"{len(self._fields)} fields", f"{len(tokens)} fields")
        return self._row(tokens)

    def _shown(self, line: str) -> str | None:
        """None where the stream has a secret field: the line may be a record of its own, without a header."""
        return None if self._hides else line

    def _row(self, tokens: list[str]) -> Outcome:
        row: dict[str, Value | None] = {}
        faults = Faults()
        null = self._dialect.null_text
        for (field, read, default), token in zip(self._columns, tokens, strict=True):
            value = default
            if token != null or token.startswith(self._dialect.quote):
                text = self._text(token)
                typed = read(text)
                if isinstance(typed, Code):
                    shape = field.shape
                    faults.add(typed, field.name, shape.expected, None if shape.hides else text)
                else:
                    value = typed
            elif default is None and field.required:
                faults.add(Code.REQUIRED_FIELD, field.name, f"{field.shape.expected} NOT NULL")
            row[field.column] = value
        return outcome_of(row, faults)

    def _tokens(self, line: str) -> list[str]:
        """The fields of a line as they are written."""
        return self._token.findall(self._dialect.delimiter + line)

    def _texts(self, tokens: list[str]) -> list[str]:
        return [self._text(token) for token in tokens]

    def _text(self, token: str) -> str:
        quote = self._dialect.quote
        if not token.startswith(quote):
            return token
        inner = token[1:-1]
        return self._escape.sub(r"\1", inner) if self._escape else inner.replace(quote * 2, quote)
