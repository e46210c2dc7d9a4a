"""Avro, plain or framed with a schema id, with writer and reader schema.

Spark's reader answers malformed bytes with a struct of NULLs, which a record of NULLs also is, and takes
no notice of bytes after the record. So the record is read as the first field of a wrapper whose second
is a fixed sentinel appended to the bytes: the sentinel comes out whole if and only if the record's
schema fits its bytes to the last one.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.avro.functions import from_avro

from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.avro_tree import row_of
from tidemark.transform.decode.expressions import bind
from tidemark.transform.decode.json_strict import rejected
from tidemark.transform.fields import Field
from tidemark.transform.schema_avsc import fields_from_avro

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
    seen = fields_from_avro(reader if reader is not None else writer)
    options = {"mode": "PERMISSIVE"}
    if reader is not None:
        options["avroSchema"] = _wrapped(reader)
    data = F.concat(body, F.lit(SENTINEL))
    read = from_avro(data, _wrapped(writer), options)
    malformed = rejected(Code.MALFORMED_AVRO, fields, expected="bytes of the writer's schema")
    return bind(
        read,
        lambda w: F.when(
            F.coalesce(w.getField("end") == F.lit(SENTINEL), F.lit(False)),
            row_of(w.getField("r"), seen, fields, unknown_fields=unknown_fields),
        ).otherwise(malformed),
    )


def decode_framed(
    schema_id: Column,
    body: Column,
    fields: tuple[Field, ...],
    *,
    writers: dict[int, Any],
    reader: Any | None,
    unknown_fields: str,
) -> Column:
    """As `decode_avro`, by the writer's schema of each id; an id not among them is UNKNOWN_SCHEMA_ID."""
    unknown = rejected(
        Code.UNKNOWN_SCHEMA_ID, fields, expected="a registered schema id", found=schema_id.cast("string")
    )
    result = F.when(
        schema_id.isNull(), rejected(Code.MALFORMED_AVRO, fields, expected="byte 0 and a schema id")
    )
    for known, writer in sorted(writers.items()):
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
