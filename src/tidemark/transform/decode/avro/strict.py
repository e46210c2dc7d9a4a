"""Avro by the schemas of writer and reader: what is in a record, and the strict lane."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.avro.bytes import Malformed
from tidemark.transform.decode.avro.bytes import reader_of as bytes_reader
from tidemark.transform.decode.avro.schema import Node, parse, resolve
from tidemark.transform.decode.avro.values import has_no_text, struct_of, text_of
from tidemark.transform.decode.outcome import Faults, Outcome, outcome_of, rejected
from tidemark.transform.fields import Field
from tidemark.transform.schema_avsc import fields_from_avro, is_millis, readable


@dataclass(frozen=True)
class AvroReading:
    """How records of one writer's schema are read: `seen` are the fields that come out of the bytes."""

    fields: tuple[Field, ...]
    seen: tuple[Field, ...]
    node: Node
    unknown_fields: str

    @property
    def surplus(self) -> tuple[Field, ...]:
        names = {f.name for f in self.fields}
        return tuple(f for f in self.seen if f.name not in names)


def reading_of(
    fields: tuple[Field, ...], *, writer: Any, reader: Any | None, unknown_fields: str
) -> AvroReading:
    final = reader if reader is not None else writer
    times = {f.name for f in fields if isinstance(f.shape.data_type, T.TimestampType)}
    millis = {f["name"] for f in final["fields"] if f["name"] in times and is_millis(f)}
    seen = tuple(
        replace(f, shape=replace(f.shape, epoch="ms")) if f.name in millis else f
        for f in fields_from_avro(readable(final, millis))
    )
    node = resolve(parse(readable(writer, millis)), parse(readable(final, millis)))
    return AvroReading(fields, seen, node, unknown_fields)


class AvroStrict:
    """Decides of a record's bytes what they are, and names the faults."""

    def __init__(self, reading: AvroReading) -> None:
        self._read = bytes_reader(reading.node)
        self._row = struct_of(reading.seen, reading.fields)
        self._surplus = reading.surplus
        names = {f.name for f in self._surplus}
        self._keyed = [f for f in reading.seen if f.name not in names and f.shape.has_map]
        self._unknown_fields = reading.unknown_fields

    def decide(self, payload: bytes, start: int = 0) -> Outcome:
        """What becomes of a payload whose record begins at `start`, behind its frame."""
        try:
            record, end = self._read(payload, start)
            if end != len(payload):
                raise Malformed(end, "", f"{len(payload) - end} bytes after the record")
        except Malformed as wrong:
            where = f" in field {wrong.path}" if wrong.path else ""
            return rejected(
                Code.MALFORMED_AVRO, "bytes of the writer's schema", f"{wrong.why}, at byte {wrong.at}{where}"
            )
        except RecursionError:
            return rejected(
                Code.MALFORMED_AVRO, "bytes of the writer's schema", "a type nested too deep in itself"
            )
        keeps = self._unknown_fields == "keep"
        if any(has_no_text(record.get(f.name), f.shape, keys_only=True) for f in self._keyed) or (
            keeps and any(has_no_text(record.get(f.name), f.shape, keys_only=False) for f in self._surplus)
        ):
            return rejected(Code.INVALID_UTF8, "UTF-8 in keys of maps and in kept fields")
        faults = Faults()
        row = self._row(record, None, faults)
        if self._unknown_fields == "reject":
            for field in self._surplus:
                faults.add(Code.UNKNOWN_FIELD, field.name, "a field of the schema")
        extra = {f.name: self._kept(record.get(f.name), f) for f in self._surplus} if keeps else None
        return outcome_of(row, faults, len(self._surplus), extra)

    def _kept(self, value: Any, field: Field) -> str | None:
        return None if value is None else text_of(value, field.shape)
