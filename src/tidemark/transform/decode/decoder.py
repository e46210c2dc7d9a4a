"""From payloads to rows and failures: one pure function, on Arrow's arrays, free of Spark.

A fast lane of each format takes what it can prove right, in columns. All else goes, payload by payload, to
the strict lane, which alone rejects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.config.decoding import Format
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode import detect
from tidemark.transform.decode.arrow_types import offsets_of, struct_type
from tidemark.transform.decode.avro.fast import AvroArrow
from tidemark.transform.decode.avro.strict import AvroStrict, reading_of
from tidemark.transform.decode.csv.fast import CsvArrow
from tidemark.transform.decode.csv.strict import CsvText
from tidemark.transform.decode.json.fast import FastJson
from tidemark.transform.decode.json.strict import BLANKS, StrictJson
from tidemark.transform.decode.outcome import FAILURE, Outcome, failure_of, rejected
from tidemark.transform.schema_avsc import UnusableSchema

if TYPE_CHECKING:
    from tidemark.transform.plan import DecodePlan

SLICE_RECORDS = 10_000
SLICE_BYTES = 8 << 20
_BROKEN_FRAME = {
    Format.JSON: Code.MALFORMED_JSON,
    Format.CSV: Code.MALFORMED_CSV,
    Format.AVRO: Code.MALFORMED_AVRO,
}
_FRAME = 5
"""Bytes: a zero, and a schema's id."""


class Decoder:
    """Decodes the payloads of one plan. Pickled, it is its plan."""

    def __init__(self, plan: DecodePlan) -> None:
        self.plan = plan
        self.row_type = struct_type(plan.fields)
        self.type = pa.struct(
            [
                ("row", self.row_type),
                ("failure", FAILURE),
                ("unknown", pa.int32()),
                ("extra", pa.map_(pa.string(), pa.string())),
                ("format", pa.string()),
                ("schema_id", pa.int64()),
            ]
        )
        self._lanes: dict[tuple[Format, int | None], tuple[Any, Any]] = {}
        if Format.JSON in plan.formats:
            strict = StrictJson(plan.fields, strict=plan.strict, unknown_fields=plan.unknown_fields)
            fast = FastJson(plan.fields, unknown_fields=plan.unknown_fields, unknown=strict.unknown)
            self._lanes[Format.JSON, None] = fast, strict
        if Format.CSV in plan.formats:
            self._lanes[Format.CSV, None] = CsvArrow(plan.fields, plan.csv), CsvText(plan.fields, plan.csv)
        if Format.AVRO in plan.formats:
            writers = plan.writers if plan.framed else {None: plan.writer}
            for schema_id, writer in writers.items():
                if isinstance(writer, UnusableSchema):
                    continue
                reading = reading_of(
                    plan.fields, writer=writer, reader=plan.reader, unknown_fields=plan.unknown_fields
                )
                self._lanes[Format.AVRO, schema_id] = AvroArrow(reading), AvroStrict(reading)

    def __reduce__(self) -> tuple[Any, ...]:
        return Decoder, (self.plan,)

    def decode(self, payloads: pa.Array, unwrapped: pa.Array | None = None) -> pa.StructArray:
        """STRUCT<row, failure, unknown, extra, format, schema_id> of each payload; of NULL all are NULL.

        `unwrapped`: what the stream's decoder made of them. `row` is NULL where there is a `failure`.
        """
        slices = self.slices_of(payloads)
        parts = [self.decode_slice(payloads[s], None if unwrapped is None else unwrapped[s]) for s in slices]
        return pa.concat_arrays(parts) if parts else pa.array([], self.type)

    @staticmethod
    def slices_of(payloads: pa.Array) -> Iterator[slice]:
        """Of few records and bytes each: the memory that decoding takes does not grow with the batch."""
        start, ends = 0, np.cumsum(pc.binary_length(payloads).fill_null(0).to_numpy())
        while start < len(ends):
            before = ends[start - 1] if start else 0
            fitting = int(np.searchsorted(ends, before + SLICE_BYTES, side="right"))
            stop = min(max(fitting, start + 1), start + SLICE_RECORDS)
            yield slice(start, stop)
            start = stop

    def decode_slice(self, payloads: pa.Array, unwrapped: pa.Array | None = None) -> pa.StructArray:
        """As `decode`, of a slice."""
        bodies = _as_binary(payloads if unwrapped is None else unwrapped)
        ids, framed = None, bodies
        if self.plan.framed:
            ids = _schema_ids(framed)
            bodies = _bodies(framed, ids.is_valid())
        found = _Found(len(payloads), self)
        given = pc.and_(payloads.is_valid(), pc.greater(pc.binary_length(bodies), 0))
        for places, (format_, schema_id) in self._sorted(bodies, np.flatnonzero(_flags(given)), ids):
            lane, _ = self._lanes.get((format_, schema_id), (None, None))
            taken = lane.read(_of(bodies, places)) if lane is not None else None
            if taken is not None:
                found.add(places, taken, format_)
        rest = np.flatnonzero(~found.taken & _flags(payloads.is_valid()))
        columns = [_of(each, rest).to_pylist() for each in (_as_binary(payloads), framed)]
        numbers = [None] * len(rest) if ids is None else _of(ids, rest).to_pylist()
        for place, payload, inside, number in zip(rest, *columns, numbers, strict=True):
            found.decided.append((int(place), *self._decided(payload, inside, number)))
        return found.result(pa.nulls(len(payloads), pa.int64()) if ids is None else ids)

    def _sorted(
        self, bodies: pa.BinaryArray, places: np.ndarray, ids: pa.Array | None
    ) -> Iterator[tuple[np.ndarray, tuple[Format, int | None]]]:
        """The places of payloads by format, and of framed Avro by the id of its schema."""
        if len(places) == 0:
            return
        formats = detect.formats_of(_of(bodies, places), self.plan.formats, self.plan.csv)
        for format_ in self.plan.formats:
            mine = places[_flags(pc.equal(formats, format_.value))]
            if len(mine) and (ids is None or format_ != Format.AVRO):
                yield mine, (format_, None)
            elif len(mine):
                numbers = _of(ids, mine).to_numpy(zero_copy_only=False)
                for number in np.unique(numbers):
                    yield mine[numbers == number], (format_, int(number))

    def _decided(
        self, payload: bytes, unwrapped: bytes | None, schema_id: int | None
    ) -> tuple[Outcome, str | None]:
        """What the strict lane says, and of which format."""
        plan, framed = self.plan, self.plan.framed
        body = unwrapped
        if body is not None and framed:
            body = None if schema_id is None else body[_FRAME:]
        unseen = format_without_text(plan.formats)
        format_ = unseen if body is None else detect.format_of(body, plan.formats, plan.csv)
        if not payload:
            return rejected(Code.EMPTY_PAYLOAD, "a payload"), format_
        if unwrapped is None:
            return rejected(Code.UNSUPPORTED_FORMAT, f"what decoder {plan.decoder} reads"), format_
        if body is None:
            single = len(plan.formats) == 1
            broken = _BROKEN_FRAME[plan.formats[0]] if single else Code.UNSUPPORTED_FORMAT
            return rejected(broken, "byte 0 and a schema id"), format_
        if not body or (plan.formats != (Format.AVRO,) and self._blank(body)):
            return rejected(Code.EMPTY_PAYLOAD, "a payload"), format_
        if format_ is None:
            formats = ", ".join(f.value for f in plan.formats)
            return rejected(Code.UNSUPPORTED_FORMAT, f"one of {formats}"), format_
        key = Format(format_), schema_id if format_ == Format.AVRO else None
        unusable = plan.writers.get(key[1]) if key[1] is not None else None
        if isinstance(unusable, UnusableSchema):
            expected = "an id of an Avro schema that can be a row"
            return rejected(Code.UNSUPPORTED_FORMAT, expected, unusable.why), format_
        if key not in self._lanes:
            return rejected(Code.UNKNOWN_SCHEMA_ID, "a registered schema id", str(schema_id)), format_
        _, strict = self._lanes[key]
        return strict.decide(unwrapped, _FRAME if framed else 0), format_

    def _blank(self, body: bytes) -> bool:
        """Nothing but white space, or the literal `null`; the CSV delimiter is not white space."""
        text = body.removeprefix(detect.BOM)
        if text.strip(BLANKS.encode()) not in (b"", b"null"):
            return False
        delimiter = self.plan.csv.delimiter
        return not (Format.CSV in self.plan.formats and delimiter in " \t" and delimiter.encode() in text)


def format_without_text(formats: tuple[Format, ...]) -> str | None:
    """The format of a payload of which nothing can be seen."""
    if len(formats) == 1:
        return formats[0].value
    return Format.AVRO.value if Format.AVRO in formats else None


class _Found:
    """What the lanes say of the payloads of a slice, by their places."""

    def __init__(self, count: int, decoder: Decoder) -> None:
        self._count, self._decoder = count, decoder
        self.taken = np.zeros(count, dtype=bool)
        self._parts: list[tuple[np.ndarray, pa.StructArray]] = []
        self._unknown = np.zeros(count, dtype=np.int32)
        self._formats: list[tuple[np.ndarray, Format]] = []
        self.decided: list[tuple[int, Outcome, str | None]] = []

    def add(self, places: np.ndarray, taken: Any, format_: Format) -> None:
        rows, flags, *unknown = taken
        self._parts.append((places, rows))
        self.taken[places] = np.asarray(flags, dtype=bool)
        if unknown:
            self._unknown[places] = unknown[0]
        self._formats.append((places, format_))

    def result(self, ids: pa.Array) -> pa.StructArray:
        faulty: list[Any] = [None] * self._count
        formats = np.full(self._count, None, dtype=object)
        for places, format_ in self._formats:
            formats[places] = format_.value
        good, extras, rows = self.taken.copy(), [], []
        for place, outcome, name in self.decided:
            formats[place] = name
            self._unknown[place] = outcome.unknown
            if outcome.code is None:
                good[place] = True
                rows.append((place, outcome.row))
                extras.append((place, outcome.extra))
            else:
                faulty[place] = failure_of(outcome, name)
        extra: list[Any] = [None] * self._count
        for place, each in extras:
            extra[place] = each
        columns = [
            self._rows(rows, good),
            pa.array(faulty, FAILURE) if len(self.decided) > len(rows) else pa.nulls(self._count, FAILURE),
            pa.array(self._unknown),
            pa.array(extra, pa.map_(pa.string(), pa.string())),
            pa.array(formats, pa.string()),
            ids,
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self._decoder.type))

    def _rows(self, decided: list[tuple[int, Any]], good: np.ndarray) -> pa.StructArray:
        kind = self._decoder.row_type
        if decided:
            places = np.array([place for place, _ in decided])
            self._parts.append((places, pa.array([row for _, row in decided], kind)))
        if not self._parts:
            return pa.nulls(self._count, kind)
        if len(self._parts) == 1 and len(self._parts[0][0]) == self._count:
            rows = self._parts[0][1]
        else:
            order = np.full(self._count, -1, dtype=np.int64)
            start = 0
            for places, part in self._parts:
                order[places] = np.arange(start, start + len(part))
                start += len(part)
            rows = pa.concat_arrays([part for _, part in self._parts])
            rows = rows.take(pa.array(order, mask=order < 0))
        if good.all():
            return rows
        return pa.StructArray.from_arrays(
            [rows.field(at) for at in range(kind.num_fields)], fields=list(kind), mask=pa.array(~good)
        )


def _of(column: pa.Array, places: np.ndarray) -> pa.Array:
    """Of the values those in these places, which ascend."""
    return column if len(places) == len(column) else column.take(pa.array(places))


def _as_binary(payloads: pa.Array) -> pa.BinaryArray:
    return payloads if payloads.type == pa.binary() else payloads.cast(pa.binary())


def _schema_ids(payloads: pa.BinaryArray) -> pa.Array:
    """The ids of framed payloads, NULL where the frame is broken."""
    framed = pc.and_(
        pc.greater_equal(pc.binary_length(payloads), _FRAME), pc.starts_with(payloads, pattern="\0")
    )
    framed = framed.fill_null(fill_value=False)
    whole = pc.if_else(framed, payloads, pa.scalar(bytes(_FRAME)))
    offsets = offsets_of(whole)[:-1]
    text = np.frombuffer(whole.buffers()[2], dtype=np.uint8)
    ids = np.zeros(len(whole), dtype=np.int64)
    for at in range(1, _FRAME):
        ids = ids << 8 | text[offsets + at]
    return pa.array(ids, mask=~_flags(framed))


def _bodies(payloads: pa.BinaryArray, framed: pa.BooleanArray) -> pa.BinaryArray:
    """What follows the frame, NULL without one."""
    offsets = offsets_of(payloads)
    # Frames and bodies in turn, of which the bodies are taken: Arrow's own slice fails on short payloads.
    places = np.repeat(offsets, 2)[:-1]
    places[1::2] = np.minimum(offsets[:-1] + _FRAME, offsets[1:])
    buffers = [None, pa.py_buffer(places), payloads.buffers()[2]]
    parts = pa.Array.from_buffers(pa.binary(), 2 * len(payloads), buffers)
    return parts.take(pa.array(np.arange(len(payloads)) * 2 + 1, mask=~_flags(framed)))


def _flags(mask: pa.BooleanArray) -> np.ndarray:
    """NULL is false."""
    found: np.ndarray = mask.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return found
