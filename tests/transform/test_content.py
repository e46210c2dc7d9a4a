"""The fingerprint of a content: the same for the same, and for nothing else."""

from __future__ import annotations

import hashlib
from itertools import combinations

import pytest
from pyspark.sql import SparkSession

from tidemark.contract import records
from tidemark.transform.content import content_hash, coordinates_hash

pytestmark = pytest.mark.usefixtures("as_shipped")

Part = bytes | None
Headers = list[tuple[str, Part]] | None
DDL = f"key_ BINARY, value_ BINARY, headers_ {records.HEADERS_DDL}"


def hashes(spark: SparkSession, parts: tuple[str, ...], *contents: tuple[Part, Part, Headers]) -> list[bytes]:
    named = spark.createDataFrame(contents, DDL).toDF(records.KEY, records.PAYLOAD, records.HEADERS)
    rows = named.coalesce(1).select(content_hash(parts).alias("hash")).collect()
    return [bytes(row["hash"]) for row in rows]


def framed(part: Part) -> bytes:
    return b"\x00" if part is None else b"\x01" + len(part).to_bytes(8, "big") + part


def test_the_hash_is_that_of_the_framed_parts(spark: SparkSession) -> None:
    key, value, headers = b"k", "ä".encode(), [("h", b"1"), ("n", None)]
    joined = framed(key) + framed(value) + (2).to_bytes(8, "big")
    joined += framed(b"h") + framed(b"1") + framed(b"n") + framed(None)
    found = hashes(spark, ("key", "value", "headers"), (key, value, headers))
    assert found == [hashlib.sha256(joined).digest()]


@pytest.mark.parametrize("parts", [("key", "value"), ("key", "value", "headers")])
def test_contents_that_differ_anywhere_have_hashes_that_differ(
    spark: SparkSession, parts: tuple[str, ...]
) -> None:
    contents: list[tuple[Part, Part, Headers]] = [
        (b"ab", b"c", None),
        (b"a", b"bc", None),
        (b"", b"abc", None),
        (None, b"abc", None),
        (b"abc", b"", None),
        (b"\x01", b"", None),
        (None, b"", None),
    ]
    if "headers" in parts:
        contents += [
            (None, b"", [("h", b"1")]),
            (None, b"", [("h1", b"")]),
            (None, b"", [("h", None)]),
            (None, b"", [("h", b"")]),
            (None, b"", [("h", b"1"), ("h", b"2")]),
            (None, b"", [("h", b"2"), ("h", b"1")]),
        ]
    found = hashes(spark, parts, *contents)
    assert [pair for pair in combinations(range(len(found)), 2) if found[pair[0]] == found[pair[1]]] == []


def test_headers_do_not_matter_when_they_are_not_named(spark: SparkSession) -> None:
    one, other = hashes(spark, ("value",), (b"1", b"v", [("h", b"1")]), (b"2", b"v", None))
    assert one == other
    no_headers, none = hashes(spark, ("headers",), (b"1", b"v", []), (b"2", b"w", None))
    assert no_headers == none


def test_coordinates_stand_for_one_record_and_no_content(spark: SparkSession) -> None:
    coordinates = spark.createDataFrame([("t", 1, 23), ("t", 12, 3), ("u", 1, 23)], ["a", "b", "c"])
    keys = [
        bytes(r["key"])
        for r in coordinates.toDF(*records.COORDINATES).select(coordinates_hash().alias("key")).collect()
    ]
    assert len(set(keys)) == 3
    assert all(len(key) != 32 for key in keys)
