"""The fast lane of CSV: lines whose fields are in the usual forms of their columns, read by `pyarrow.csv`.

One pattern, made of the schema, proves the whole line: its quotes, the number of its fields, and of each
field that the reader takes it for what it is. What it does not match, the strict lane decides.
"""

from __future__ import annotations

from string import ascii_letters, digits

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyspark.sql import types as T

from tidemark.config.decoding import CsvDialect
from tidemark.transform.decode.arrow_types import arrow_type, struct_type
from tidemark.transform.decode.detect import valid_utf8
from tidemark.transform.decode.scalar import default_of, epoch_range
from tidemark.transform.decode.usual_forms import binary_or_time, form_of, pattern_of
from tidemark.transform.fields import INTEGERS, Field, Shape

_IN_VALUES = frozenset(ascii_letters + digits + "+-./:= ")
"""Characters of values other than text: where one of them delimits or quotes, there is no fast lane."""
_LINE_ENDS = "\r\n"
FEW = 48
"""Fewer records than this are decided sooner than the pattern is compiled for their batch."""


class CsvArrow:
    """Reads a batch of lines. `pattern` is None where a value could be mistaken: then it takes none.

    A line of one field may be blank, which the decoder decides.
    """

    def __init__(self, fields: tuple[Field, ...], dialect: CsvDialect) -> None:
        self._fields = fields
        self._type = struct_type(fields)
        self._defaults = [default_of(f) for f in fields]
        self._names = [str(at) for at in range(len(fields))]
        self.pattern = line_pattern(fields, dialect)
        self._header = _header(fields, dialect) if dialect.header else None
        self._parse = (
            csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote,
                double_quote=dialect.escape is None or dialect.escape == dialect.quote,
                newlines_in_values=True,
            )
            if self.pattern
            else None
        )
        self._convert = csv.ConvertOptions(
            column_types={name: _read_as(f.shape) for name, f in zip(self._names, fields, strict=True)},
            null_values=[dialect.null_text],
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def read(self, payloads: pa.BinaryArray) -> tuple[pa.StructArray, pa.BooleanArray]:
        """The rows, NULL where the payload was not taken, and which were."""
        none = pa.nulls(len(payloads), self._type), pa.repeat(pa.scalar(value=False), len(payloads))
        if self.pattern is None or len(payloads) < FEW:
            return none
        usual = pc.and_(pc.match_substring_regex(payloads, self.pattern), valid_utf8(payloads))
        lines = payloads if usual.true_count == len(payloads) else payloads.filter(usual)
        if len(lines) == 0:
            return none
        try:
            table = self._table(lines)
        except pa.ArrowInvalid:
            # No line is known that matches and cannot be read; it would be the strict lane's.
            return none
        rights: list[pa.BooleanArray] = []
        values = []
        for name, field, default in zip(self._names, self._fields, self._defaults, strict=True):
            value, right = _typed(table.column(name).combine_chunks(), field.shape)
            rights += right
            if default is not None:
                value = value.fill_null(pa.scalar(default, value.type))
            elif field.required and value.null_count:
                rights.append(value.is_valid())
            values.append(value)
        rows = pa.StructArray.from_arrays(values, fields=list(self._type))
        return _spread(rows, rights, usual, none)

    def _table(self, lines: pa.BinaryArray) -> pa.Table:
        if self._header is not None:
            lines = pc.replace_substring_regex(lines, self._header, "", max_replacements=1)
        text = pa.StringArray.from_buffers(len(lines), *lines.buffers()[1:], offset=lines.offset)
        text = pc.ascii_rtrim(text, _LINE_ENDS)
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(text)], text), "\n")[0].as_buffer()
        table = csv.read_csv(
            pa.BufferReader(joined),
            csv.ReadOptions(use_threads=False, block_size=len(joined) + 1, column_names=self._names),
            self._parse,
            self._convert,
        )
        if table.num_rows != len(lines):
            raise pa.ArrowInvalid("as many rows as lines")
        return table


def line_pattern(fields: tuple[Field, ...], dialect: CsvDialect) -> str | None:
    """The pattern of a line that the fast lane takes, matched byte by byte; None where it can take none."""
    special = {dialect.delimiter, dialect.quote}
    if len(fields) < 2 or special & _IN_VALUES or not all(mark.isascii() for mark in special):
        return None
    if not all(f.shape.is_scalar for f in fields):
        return None
    quote, escape, null = dialect.quote, dialect.escape, dialect.null_text
    escaped = escape is not None and escape != quote
    q, d = pattern_of(quote), pattern_of(dialect.delimiter)
    e = pattern_of(escape) if escape is not None and escaped and escape.isascii() else ""
    if escaped and not e:
        return None
    inner = f"[^{q}{e}]*" if escaped else f"(?:[^{q}]|{q}{q})*"
    text = f"(?:[^{q}{d}{e}\\r\\n]*|{q}{inner}{q})"
    empty = None if (special | {escape, *_LINE_ENDS}) & set(null) else pattern_of(null)
    forms = []
    for field in fields:
        form = form_of(field.shape)
        others = "" if empty is None else f"|{empty}"
        forms.append(text if form is None else f"(?:{form}|{q}(?:{form}){q}{others})")
    if dialect.header and any((special | set(_LINE_ENDS)) & set(f.name) for f in fields):
        return None
    header = _header(fields, dialect) if dialect.header else "^"
    # A BOM would be text of the first field.
    return f"{header}(?:{d.join(forms)})(?:\\r\\n|\\n|\\r)?\\z"


def _header(fields: tuple[Field, ...], dialect: CsvDialect) -> str:
    names = pattern_of(dialect.delimiter).join(pattern_of(f.name) for f in fields)
    return f"^{names}(?:\\r\\n|\\n|\\r)"


def _read_as(shape: Shape) -> pa.DataType:
    kind = shape.data_type
    if isinstance(kind, INTEGERS) or shape.epoch:
        return pa.int64()
    return pa.string() if isinstance(kind, T.BinaryType | T.TimestampType) else arrow_type(shape)


def _typed(value: pa.Array, shape: Shape) -> tuple[pa.Array, list[pa.BooleanArray]]:
    """The column of what was read, and where it is right; nowhere else is it looked at."""
    kind, final = shape.data_type, arrow_type(shape)
    if shape.epoch:
        factor, first, last = epoch_range(shape.epoch)
        right = _between(value, first, last)
        return pc.multiply(value, factor).view(pa.timestamp("us")).cast(final), right
    if isinstance(kind, INTEGERS) and value.type != final:
        bits = final.bit_width - 1
        return value.cast(final, safe=False), _between(value, -(1 << bits), (1 << bits) - 1)
    if isinstance(kind, T.BinaryType | T.TimestampType):
        return binary_or_time(value, kind, final), []
    return value, []


def _between(value: pa.Array, low: int, high: int) -> list[pa.BooleanArray]:
    bounds = pc.min_max(value)
    if not bounds["min"].is_valid or (bounds["min"].as_py() >= low and bounds["max"].as_py() <= high):
        return []
    return [pc.and_(pc.greater_equal(value, low), pc.less_equal(value, high)).fill_null(True)]


def _spread(
    rows: pa.StructArray,
    rights: list[pa.BooleanArray],
    usual: pa.BooleanArray,
    none: tuple[pa.StructArray, pa.BooleanArray],
) -> tuple[pa.StructArray, pa.BooleanArray]:
    """The rows that are right in their places among the payloads."""
    everywhere = np.zeros(len(usual), bool)
    places = np.flatnonzero(usual.to_numpy(zero_copy_only=False))
    right = np.ones(len(rows), bool)
    for each in rights:
        right &= each.to_numpy(zero_copy_only=False)
    if right.all() and len(rows) == len(usual):
        return rows, usual
    everywhere[places[right]] = True
    source = np.full(len(usual), -1)
    source[places] = np.arange(len(rows))
    found = pa.array(source, mask=~everywhere)
    return rows.take(found), pa.array(everywhere)
