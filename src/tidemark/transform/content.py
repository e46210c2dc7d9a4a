"""A record's content: its headers, and its fingerprint, SHA-256 of the parts that the configuration names."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.contract import records

FINGERPRINT = "fingerprint"
_COLUMNS = {"key": records.KEY, "value": records.PAYLOAD}
_NULL, _PRESENT = b"\x00", b"\x01"


def headers_or_empty() -> Column:
    """The record's headers; an empty array for NULL."""
    return F.coalesce(F.col(records.HEADERS), F.array().cast(records.HEADERS_DDL))


def octets(part: Column) -> Column:
    """The bytes of a text or a binary; 0 of NULL."""
    return F.coalesce(F.octet_length(part), F.lit(0))


def headers_size(*, of_each: int) -> Column:
    """The bytes of the names and the values of the record's headers, and `of_each` for each header."""
    return F.aggregate(
        headers_or_empty(),
        F.lit(0),
        lambda size, h: size + F.octet_length(h["name"]) + octets(h["value"]) + of_each,
    )


def content_hash(parts: Sequence[str]) -> Column:
    """BINARY(32) over `ENVELOPE_COLUMNS`: key, value and headers as named, in the given order.

    Each part is framed by a mark for NULL or the 8-byte length, so that no two contents run together:
    key `ab` and value `c` are another content than `a` and `bc`; NULL is another than empty. Headers
    count with their names, order and repetitions; none is the same as NULL.
    """
    framed = [_framed_headers() if part == "headers" else _framed(F.col(_COLUMNS[part])) for part in parts]
    return F.unhex(F.sha2(F.concat(*framed), 256))


def coordinates_hash() -> Column:
    """BINARY that no other record has, nor any content: what is never compared gets it."""
    return F.encode(F.concat_ws(":", *[F.col(c).cast("string") for c in records.COORDINATES]), "utf-8")


def _framed(part: Column) -> Column:
    length = F.unhex(F.lpad(F.hex(F.octet_length(part).cast("bigint")), 16, "0"))
    return F.coalesce(F.concat(F.lit(_PRESENT), length, part), F.lit(_NULL))


def _framed_headers() -> Column:
    headers = headers_or_empty()
    return F.aggregate(
        headers,
        F.unhex(F.lpad(F.hex(F.size(headers).cast("bigint")), 16, "0")),
        lambda joined, h: F.concat(joined, _framed(F.encode(h["name"], "utf-8")), _framed(h["value"])),
    )
