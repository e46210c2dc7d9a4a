"""Headers of a record on a DLQ topic: the producer's, and those of the program that dead-lettered it. Pure Columns.

Tidemark appends its headers behind all others, `__dlq.errors.topic` first and once. So they begin at the last
header of that name and reach to the end. A producer's headers of the same names are in front of it and are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import ERRORS_PREFIX, FIRST_HEADER
from tidemark.transform.content import headers_or_empty

OURS = "_ours"
"""Column: Tidemark's headers, an empty array where it did not write the record."""
OTHERS = "_others"
"""Column: all headers before these."""


def split_headers() -> tuple[Column, Column]:
    """The columns OURS and OTHERS. In: `message_headers`."""
    headers = headers_or_empty()
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


def for_sink(kept: Column, added: Mapping[str, Column]) -> Column:
    """Headers as Spark's Kafka sink takes them: `kept`, then the texts `added` that are not NULL."""
    texts = [
        F.when(text.isNotNull(), F.struct(F.lit(name).alias("key"), F.encode(text, "UTF-8").alias("value")))
        for name, text in added.items()
    ]
    renamed = F.transform(kept, lambda h: F.struct(h["name"].alias("key"), h["value"].alias("value")))
    return F.concat(renamed, F.array_compact(F.array(*texts)))


def _last(column: str, name: str) -> Column:
    return F.try_element_at(F.filter(F.col(column), lambda h: h["name"] == name), F.lit(-1))["value"]


def _text(value: Column) -> Column:
    return F.make_valid_utf8(value.cast("string"))
