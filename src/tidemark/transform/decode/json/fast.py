"""The fast lane of JSON: Arrow's own reader takes the payloads of a batch at once, typed.

It refuses most of what is wrong, and then all payloads of the text it was given: what may be wrong is kept
out of the text. What it lets pass, `columns` finds. A payload that is not taken costs time, no more: the
strict lane decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidemark.transform.decode.arrow_types import offsets_of
from tidemark.transform.decode.detect import valid_utf8
from tidemark.transform.decode.json.columns import columns_of, members_seen
from tidemark.transform.decode.json.screen import screen_of
from tidemark.transform.decode.json.strict import BLANKS, MAX_NUMBER
from tidemark.transform.fields import Field

FEW = 8
"""Payloads that the strict lane decides faster than a reader starts."""
_FEW_UNUSUAL = 0.01
_MOST_READS = 24
_SMALLEST_PART = 32
_NEWLINE, _QUOTE, _OPEN, _CLOSE = b'\n"{}'
_ESCAPED_QUOTE = b"\\u0022"
_OF_NUMBERS = np.zeros(256, dtype=bool)
_OF_NUMBERS[list(b"0123456789.eE+-")] = True


class Taken(NamedTuple):
    """`rows` of all payloads, of which those that are `taken` are right, and their unknown fields."""

    rows: pa.StructArray
    taken: np.ndarray
    unknown: np.ndarray


class FastJson:
    """Reads payloads of one schema. `unknown` counts the unknown fields of a payload: -1 where in doubt."""

    def __init__(
        self, fields: tuple[Field, ...], *, unknown_fields: str, unknown: Callable[[bytes], int]
    ) -> None:
        self._fields, self._unknown_fields, self._unknown = fields, unknown_fields, unknown
        self.able = not any(f.shape.has_map for f in fields)
        if self.able:
            self._options = pj.ParseOptions(
                explicit_schema=pa.schema(columns_of(fields)), unexpected_field_behavior="ignore"
            )
            self._screen = screen_of(fields)

    def read(self, payloads: pa.BinaryArray) -> Taken | None:
        """Of payloads without their BOM, none of them empty. None where nothing is taken."""
        if not self.able or len(payloads) < FEW:
            return None
        trimmed, able = _shaped(payloads)
        quotes = _per_payload(trimmed, _QUOTE)
        unusual = quotes != np.bincount(quotes[able]).argmax() if able.any() else able
        if 0 < np.count_nonzero(unusual & able) <= _FEW_UNUSUAL * len(able):
            able &= ~unusual
        if not able.any():
            return None
        given = trimmed if able.all() else pc.if_else(pa.array(able), trimmed, pa.scalar(b"{}"))
        table = self._table(given)
        if table is not None:
            return self._proven(table, given, able)
        return self._in_parts(trimmed, np.flatnonzero(able))

    def _table(self, payloads: pa.BinaryArray) -> pa.Table | None:
        """The payloads' table, or None where one of them, at least, is not what the schema says.

        No payload has a line's end in it, each begins with `{` and ends with `}`: then each is one document
        if there are as many as payloads. For a line's end is not legal in a string, and `}` before `{` only
        between documents.
        """
        text = pc.binary_join_element_wise(payloads, pa.scalar(b"\n"), pa.scalar(b""))
        offsets = offsets_of(text)
        data = text.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        reading = pj.ReadOptions(use_threads=False, block_size=data.size + 1)
        try:
            table = pj.read_json(pa.BufferReader(data), read_options=reading, parse_options=self._options)
        except pa.ArrowException:
            return None
        return table if table.num_rows == len(payloads) else None

    def _in_parts(self, payloads: pa.BinaryArray, at: np.ndarray) -> Taken | None:
        """What is right among payloads of which some are not: the screen names most of these."""
        count = len(payloads)
        if count <= _SMALLEST_PART:
            return None
        sure = pc.match_substring_regex(payloads.take(pa.array(at)), self._screen).to_numpy(
            zero_copy_only=False
        )
        waiting = [at[sure]]
        if np.count_nonzero(~sure) > 5 * _FEW_UNUSUAL * count:
            waiting.insert(0, at[~sure])
        parts: list[tuple[np.ndarray, Taken]] = []
        for _ in range(_MOST_READS):
            if not waiting:
                break
            places = waiting.pop()
            if len(places) == 0:
                continue
            given = payloads.take(pa.array(places))
            table = self._table(given)
            if table is not None:
                parts.append((places, self._proven(table, given, np.ones(len(given), dtype=bool))))
            elif len(places) > _SMALLEST_PART:
                middle = len(places) // 2
                waiting += [places[middle:], places[:middle]]
        return _joined(parts, count)

    def _proven(self, table: pa.Table, payloads: pa.BinaryArray, able: np.ndarray) -> Taken:
        text = payloads.buffers()[2].to_pybytes()
        columns = [table.column(at).combine_chunks() for at in range(len(self._fields))]
        seen = members_seen(columns, self._fields, escapes=b"\\" in text)
        taken = able & seen.sound
        if seen.filled.any():
            # A default is for a field that is absent, and not for one that is null.
            taken &= ~(seen.filled & _holding(payloads, "null"))
        accounted = seen.quotes == _per_payload(payloads, _QUOTE)
        if _ESCAPED_QUOTE in text:
            accounted &= ~_holding(payloads, _ESCAPED_QUOTE.decode())
        unknown = np.zeros(len(able), dtype=np.int32)
        doubtful = np.flatnonzero(taken & ~accounted)
        for at, payload in zip(doubtful, payloads.take(pa.array(doubtful)).to_pylist(), strict=True):
            unknown[at] = count = self._unknown(payload)
            taken[at] = count == 0 or (count > 0 and self._unknown_fields == "ignore")
        return Taken(seen.values, taken, np.where(taken, unknown, 0))


def _shaped(payloads: pa.BinaryArray) -> tuple[pa.BinaryArray, np.ndarray]:
    """The payloads without blanks around them and line's ends within; which of them may be objects."""
    if not _enclosed(payloads).all():
        payloads = pc.ascii_trim(payloads.view(pa.string()), characters=BLANKS).view(pa.binary())
    offsets = offsets_of(payloads)
    values = payloads.buffers()[2]
    text = np.frombuffer(values, dtype=np.uint8)[: offsets[-1]]
    if (text[offsets[0] :] == _NEWLINE).any():
        # Both are blanks, and neither is legal in a string.
        spaced = pa.py_buffer(values.to_pybytes().replace(b"\n", b"\t"))
        payloads = pa.Array.from_buffers(
            pa.binary(), len(payloads), [None, payloads.buffers()[1], spaced], 0, payloads.offset
        )
    able = _enclosed(payloads)
    able &= valid_utf8(payloads).to_numpy(zero_copy_only=False)
    if np.diff(offsets).max(initial=0) > MAX_NUMBER:
        able &= ~_long_numbers(text, offsets)
    return payloads, able


def _enclosed(payloads: pa.BinaryArray) -> np.ndarray:
    offsets = offsets_of(payloads)
    text = np.frombuffer(payloads.buffers()[2], dtype=np.uint8)
    some = offsets[1:] > offsets[:-1]
    first, last = offsets[:-1][some], offsets[1:][some] - 1
    found = some.copy()
    found[some] = (text[first] == _OPEN) & (text[last] == _CLOSE)
    return found


def _long_numbers(text: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Which payloads have more characters in a row, of those that numbers have, than a number may have.

    Such a row covers two places of those looked at first.
    """
    places = _OF_NUMBERS[text[:: MAX_NUMBER // 2]]
    found = np.zeros(len(offsets) - 1, dtype=bool)
    if not (places[1:] & places[:-1]).any():
        return found
    others = np.flatnonzero(~_OF_NUMBERS[text])
    ends = np.append(others, len(text))
    starts = np.insert(others, 0, -1)
    for at in starts[ends - starts > MAX_NUMBER] + 1:
        found[max(0, np.searchsorted(offsets, at, side="right") - 1)] = True
    return found


def _holding(payloads: pa.BinaryArray, what: str) -> np.ndarray:
    found: np.ndarray = pc.match_substring(payloads, what).to_numpy(zero_copy_only=False)
    return found


def _per_payload(payloads: pa.BinaryArray, byte: int) -> np.ndarray:
    """How often the byte stands in each payload that is not empty."""
    offsets = offsets_of(payloads)
    found = np.frombuffer(payloads.buffers()[2], dtype=np.uint8)[: offsets[-1]] == byte
    return np.add.reduceat(found, np.minimum(offsets[:-1], len(found) - 1), dtype=np.int32)


def _joined(parts: list[tuple[np.ndarray, Taken]], count: int) -> Taken | None:
    """The parts in the order of all payloads."""
    if not parts:
        return None
    places = np.concatenate([at for at, _ in parts])
    taken, unknown = np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int32)
    taken[places] = np.concatenate([part.taken for _, part in parts])
    unknown[places] = np.concatenate([part.unknown for _, part in parts])
    order = np.full(count, -1, dtype=np.int64)
    order[places] = np.arange(len(places))
    rows = pa.concat_arrays([part.rows for _, part in parts])
    return Taken(rows.take(pa.array(order, mask=order < 0)), taken, unknown)
