"""The bytes of a batch of Avro records, and where each of them stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.transform.decode.arrow_types import offsets_of
from tidemark.transform.decode.detect import valid_utf8

DENSE, LONGEST, ROUNDS = 32, 64, 2000
"""Items of arrays and maps are read one of each record at a time: where fewer records than `DENSE` have one
more, up to the item `LONGEST`, and `ROUNDS` times a batch.
"""
_FRONT, _REAR = 16, 32
_SEVENS = 0x7F7F7F7F7F7F7F7F
_STOPS = 0x8080808080808080

Lanes = Any
"""An array of the numbers of records, ascending."""
Step = Callable[["Batch", Lanes], Any]
"""Reads a value of each of these records: an array of as many, or nothing where no column wants it."""


class NoFastLane(Exception):
    """What the schemas ask for is for the strict lane."""


class Batch:
    """The bytes of all records, and where each stands. One that ran over its end stays at `limit`."""

    def __init__(self, payloads: pa.BinaryArray, start: int) -> None:
        offsets = offsets_of(payloads).astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        self.data = np.zeros(_FRONT + last - first + _REAR, np.uint8)
        self.data[_FRONT : _FRONT + last - first] = np.frombuffer(payloads.buffers()[2] or b"", np.uint8)[
            first:last
        ]
        self.buffer = pa.py_buffer(self.data)
        self.words = self._view("<u8", 8)
        offsets += _FRONT - first
        self.limit = int(offsets[-1]) + 1
        self.ends = offsets[1:]
        self.at = np.minimum(offsets[:-1] + start, self.limit)
        self.right = np.ones(len(payloads), bool)
        self.rounds = ROUNDS

    def _view(self, kind: str, size: int) -> Any:
        """The bytes as numbers that begin at every byte."""
        return np.ndarray((len(self.data) - size + 1,), kind, self.data, strides=(1,))

    def fail(self, lanes: Lanes, wrong: Any) -> None:
        if wrong.any():
            self.right[lanes[wrong]] = False

    def number(self, lanes: Lanes, most: int = 10) -> Any:
        """The next int or long of each, in `most` bytes."""
        at = self.at[lanes]
        first = self.data[at]
        if first.max(initial=0) < 0x80:
            self.at[lanes] = np.minimum(at + 1, self.limit)
            value = first.astype(np.int64)
        else:
            word = self.words[at]
            stop = ~word & _STOPS
            stop &= ~stop + np.uint64(1)
            value = word & (stop | (stop - np.uint64(1))) & _SEVENS
            value = (value & 0x007F007F007F007F) | ((value & 0x7F007F007F007F00) >> 1)
            value = (value & 0x00003FFF00003FFF) | ((value & 0x3FFF00003FFF0000) >> 2)
            value = (value & 0x000000000FFFFFFF) | ((value & 0x0FFFFFFF00000000) >> 4)
            # The exponent of a power of two.
            length = (((stop.astype(np.float64).view(np.int64) >> 52) - 1023) >> 3) + 1
            long = stop == 0
            if long.any():
                ninth, tenth = (self.data[at[long] + n].astype(np.uint64) for n in (8, 9))
                more = ninth >= 0x80
                value[long] |= (ninth & 0x7F) << 56 | np.where(more, tenth << 63, 0)
                length[long] = 9 + more
                self.fail(lanes[long], more & (tenth >= 0x80))
            self.fail(lanes, length > most)
            self.at[lanes] = np.minimum(at + length, self.limit)
            value = value.view(np.int64)
        unsigned = value.view(np.uint64)
        return (unsigned >> 1).view(np.int64) ^ -(value & 1)

    def taken(self, lanes: Lanes, size: Any) -> tuple[Any, Any]:
        """Where the next `size` bytes of each begin and end, within the record's own bytes."""
        at = self.at[lanes]
        over = (size < 0) | (size > self.limit - at)
        self.at[lanes] = np.where(over, self.limit, at + size)
        ends = self.ends[lanes]
        return np.minimum(at, ends), np.minimum(np.where(over, at, at + size), ends)

    def fixed(self, lanes: Lanes, kind: str, size: int) -> Any:
        """The next number of `size` bytes of each."""
        at = self.at[lanes]
        self.at[lanes] = np.minimum(at + size, self.limit)
        return self._view(kind, size)[at]

    def texts(self, begins: Any, ends: Any) -> pa.BinaryArray:
        """The bytes in these places: every other one of those between all of the places."""
        offsets = np.empty(2 * len(begins) + 1, np.int32)
        offsets[:-1:2], offsets[1::2] = begins, ends
        offsets[-1] = ends[-1] if len(ends) else 0
        every = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * len(begins), [None, pa.py_buffer(offsets), self.buffer]
        )
        return every.take(pa.array(np.arange(0, 2 * len(begins), 2)))

    def goes_on(self, lanes: Lanes, item: int) -> bool:
        """Whether to read one more item of these, which pays for few only some times."""
        if len(lanes) >= DENSE or (item < LONGEST and self.rounds > 0):
            self.rounds -= len(lanes) < DENSE
            return True
        self.right[lanes] = False
        return False

    def between(self, lanes: Lanes, value: Any, low: int, high: int) -> None:
        self.fail(lanes, (value < low) | (value > high))


def as_text(batch: Batch, lanes: Lanes, value: pa.BinaryArray) -> pa.StringArray:
    right = valid_utf8(value)
    if right.false_count:
        wrong = ~right.to_numpy(zero_copy_only=False)
        batch.fail(lanes, wrong)
        value = value.take(pa.array(np.arange(len(value)), mask=wrong))
    return value.cast(pa.string())
