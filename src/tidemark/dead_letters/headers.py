"""Headers of a record on a DLQ topic: the producer's, and those of the program that dead-lettered it. Pure Columns.

Tidemark appends its headers behind all others, `__dlq.errors.topic` first and once. So they begin at the last
header of that name and reach to the end. A producer's headers of the same names are in front of it and are ignored.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import ERRORS_PREFIX, FIRST_HEADER

OURS = "_ours"
"""Column: Tidemark's headers, an empty array where it did not write the record."""
OTHERS = "_others"
"""Column: all headers before these."""


def split_headers() -> tuple[Column, Column]:
    """The columns OURS and OTHERS. In: `message_headers`."""
    headers = F.coalesce(F.col(records.HEADERS), F.array().cast(records.HEADERS_DDL))
    names = F.transform(headers, lambda h: h["name"])
    length = F.array_position(F.reverse(names), FIRST_HEADER).cast("int")
    tail = F.slice(headers, F.size(headers) - length + 1, length)
    whole = F.forall(tail, lambda h: h["name"].startswith(ERRORS_PREFIX))
    ours = F.when(whole, tail).otherwise(F.array().cast(records.HEADERS_DDL))
    others = F.slice(headers, F.lit(1), F.size(headers) - F.when(whole, length).otherwise(F.lit(0)))
    return ours.alias(OURS), others.alias(OTHERS)


def ours(name: str) -> Column:
    """The text of a header of Tidemark's, named without its prefix."""
    return _text(_last(OURS, f"{ERRORS_PREFIX}{name}"))


def other(name: str) -> Column:
    """The bytes of the last header of this name, because dead-lettering adds headers at the end."""
    return _last(OTHERS, name)


def other_text(name: str) -> Column:
    return _text(other(name))


def other_number(name: str) -> Column:
    """A header of at most eight big-endian bytes, as Spring Kafka writes numbers."""
    value = other(name)
    digits = F.hex(F.when(F.octet_length(value).between(1, 8), value))
    return F.conv(digits, 16, 10).try_cast("bigint")


def _last(column: str, name: str) -> Column:
    return F.try_element_at(F.filter(F.col(column), lambda h: h["name"] == name), F.lit(-1))["value"]


def _text(value: Column) -> Column:
    return F.make_valid_utf8(value.cast("string"))
