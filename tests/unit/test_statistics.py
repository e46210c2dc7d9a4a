"""Which columns a new table keeps statistics of."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from tidemark.config.stream import Destination
from tidemark.sink.properties import OWN, properties_of
from tidemark.sink.statistics import PROPERTY, statistics_property
from tidemark.transform.fields import struct_of
from tidemark.transform.schema_ddl import fields_from_ddl

COORDINATES = (
    "stream_topic_id STRING, stream_partition INT, stream_offset BIGINT, message_timestamp TIMESTAMP"
)
FIRST = "`stream_partition`,`stream_offset`,`message_timestamp`"


def schema(ddl: str) -> T.StructType:
    return struct_of(fields_from_ddl(f"{ddl}, {COORDINATES}"))


def wide(count: int) -> str:
    return ", ".join(f"c{n} INT" for n in range(count))


@pytest.mark.parametrize(
    ("destination", "ddl", "expected"),
    [
        # Delta takes them all by itself, and those that are added later too.
        (Destination(), wide(28), None),
        (Destination(), wide(29), f"{FIRST},{','.join(f'`c{n}`' for n in range(29))}"),
        # Fields of a STRUCT count, and what Delta keeps no statistics of takes no place.
        (
            Destination(),
            f"s STRUCT<a: INT, b: STRUCT<c: DATE, d: ARRAY<INT>>>, f BOOLEAN, x BINARY, {wide(40)}",
            f"{FIRST},`s`.`a`,`s`.`b`.`c`,{','.join(f'`c{n}`' for n in range(27))}",
        ),
        (
            Destination(partition_columns=("C0",), cluster_by=("c39", "stream_offset")),
            wide(40),
            "`c39`,`stream_offset`,`stream_partition`,`message_timestamp`,"
            + ",".join(f"`c{n}`" for n in range(1, 29)),
        ),
        (Destination(statistics=()), wide(3), FIRST),
        (
            Destination(statistics=("C2", "s.B")),
            f"{wide(3)}, s STRUCT<a: INT, b: INT>",
            f"{FIRST},`c2`,`s`.`b`",
        ),
        (
            Destination(statistics=("s", "stream_offset")),
            "s STRUCT<a: INT, `b``c`: INT>",
            f"{FIRST},`s`.`a`,`s`.`b``c`",
        ),
        (
            Destination(statistics=(), partition_columns=("stream_partition",)),
            "a INT",
            "`stream_offset`,`message_timestamp`",
        ),
        (Destination(properties={"delta.dataSkippingNumIndexedCols": "5"}), wide(40), None),
    ],
)
def test_the_coordinates_come_first_then_the_streams_own_columns(
    destination: Destination, ddl: str, expected: str | None
) -> None:
    assert statistics_property(destination, schema(ddl)) == expected


def test_a_property_of_the_configuration_wins_in_whatever_dead_letter_case() -> None:
    given = {"delta.CheckpointInterval": "5", "delta.datapartitioning": "x"}
    made = properties_of(Destination(properties=given, statistics=()), schema("a INT"))
    assert made == {"delta.isolationLevel": OWN["delta.isolationLevel"], PROPERTY: FIRST, **given}
