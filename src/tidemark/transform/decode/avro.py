"""Avro, plain or framed with a schema id, with writer and reader schema.

Spark's reader answers malformed bytes with a struct of NULLs, which a record of NULLs also is, and takes
no notice of bytes after the record. So the record is read as the first field of a wrapper whose second
is a fixed sentinel appended to the bytes: the sentinel comes out whole if and only if the record's
schema fits its bytes to the last one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.avro_tree import row_of
from tidemark.transform.decode.expressions import bind, get
from tidemark.transform.decode.json_strict import rejected
from tidemark.transform.fields import Field, Shape
from tidemark.transform.schema_avsc import UnusableSchema, fields_from_avro, is_millis, readable

SENTINEL = bytes.fromhex("f7d15a2e9b03c4681c7fe0a95d42b386")
"""No proper prefix of it is also its suffix, so bytes left over before it cannot pass for it."""


def _wrapped(schema: Any) -> str:
    end = {"type": "fixed", "name": "tidemark_end", "size": len(SENTINEL)}
    fields = [{"name": "r", "type": schema}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "tidemark_wrapper", "fields": fields})


def decode_avro(
    body: Column,
    fields: tuple[Field, ...],
    *,
    writer: Any,
    reader: Any | None,
    unknown_fields: str,
) -> Column:
    """STRUCT<row, faults, unknown, extra> of one record's bytes, written with `writer`."""
    final = reader if reader is not None else writer
    times = {f.name for f in fields if isinstance(f.shape.data_type, T.TimestampType)}
    millis = {f["name"] for f in final["fields"] if f["name"] in times and is_millis(f)}
    seen = tuple(
        replace(f, shape=replace(f.shape, epoch="ms")) if f.name in millis else f
        for f in fields_from_avro(readable(final, millis))
    )
    options = {"mode": "PERMISSIVE"}
    if reader is not None:
        options["avroSchema"] = _wrapped(readable(reader, millis))
    data = F.concat(body, F.lit(SENTINEL))
    read = from_avro(data, _wrapped(readable(writer, millis)), options)
    malformed = rejected(Code.MALFORMED_AVRO, fields, expected="bytes of the writer's schema")
    invalid = rejected(Code.INVALID_UTF8, fields, expected="UTF-8 in keys of maps and in kept fields")

    def of_wrapper(w: Column) -> Column:
        whole = F.coalesce(w.getField("end") == F.lit(SENTINEL), F.lit(False))
        row = row_of(w.getField("r"), seen, fields, unknown_fields=unknown_fields)
        replaced = _replaced(w.getField("r"), body, seen, fields, keep=unknown_fields == "keep")
        if replaced is not None:
            row = F.when(replaced, invalid).otherwise(row)
        return F.when(whole, row).otherwise(malformed)

    return bind(read, of_wrapper)


def _replaced(
    record: Column, body: Column, seen: tuple[Field, ...], fields: tuple[Field, ...], *, keep: bool
) -> Column | None:
    """Whether bytes that are not UTF-8 turned into U+FFFD on the way, where no other check sees them: the
    reader decodes keys of maps, and kept fields become text. None where there are none. A record that was
    sent with a U+FFFD of its own is not suspected.
    """
    known = {f.name for f in fields}
    looked_at = [f for f in seen if (_has_map(f.shape) if f.name in known else keep)]
    if not looked_at:
        return None
    text = F.to_json(F.struct(*[get(record, f.name).alias(f"f{i}") for i, f in enumerate(looked_at)]))
    return text.contains("\ufffd") & ~F.contains(body, F.lit("\ufffd".encode()))


def _has_map(shape: Shape) -> bool:
    inner = [f.shape for f in shape.fields] + ([shape.element] if shape.element is not None else [])
    return isinstance(shape.data_type, T.MapType) or any(_has_map(s) for s in inner)


def decode_framed(
    schema_id: Column,
    body: Column,
    fields: tuple[Field, ...],
    *,
    writers: dict[int, Any],
    reader: Any | None,
    unknown_fields: str,
) -> Column:
    """As `decode_avro`, by the writer's schema of each id; an id not among them is UNKNOWN_SCHEMA_ID, one
    whose schema is unusable UNSUPPORTED_FORMAT.
    """
    unknown = rejected(
        Code.UNKNOWN_SCHEMA_ID, fields, expected="a registered schema id", found=schema_id.cast("string")
    )
    result = F.when(
        schema_id.isNull(), rejected(Code.MALFORMED_AVRO, fields, expected="byte 0 and a schema id")
    )
    for known, writer in sorted(writers.items()):
        if isinstance(writer, UnusableSchema):
            expected = "an id of an Avro schema that can be a row"
            decoded = rejected(Code.UNSUPPORTED_FORMAT, fields, expected=expected, found=F.lit(writer.why))
        else:
            decoded = decode_avro(body, fields, writer=writer, reader=reader, unknown_fields=unknown_fields)
        result = result.when(schema_id == known, decoded)
    return result.otherwise(unknown)


def schema_id(payload: Column) -> Column:
    """The id of a framed payload, or NULL where the frame is broken."""
    framed = (F.octet_length(payload) >= 5) & (F.hex(F.substring(payload, 1, 1)) == "00")
    number = F.conv(F.hex(F.substring(payload, 2, 4)), 16, 10).try_cast("bigint")
    return F.when(framed, number)


def body_of(payload: Column) -> Column:
    return F.substr(payload, F.lit(6)).cast(T.BinaryType())
