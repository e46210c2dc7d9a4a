"""A table that two writers create at the same moment, and one that cannot be created."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract import records
from tidemark.contract.errors import LedgerError
from tidemark.sink import table as tables

SCHEMA = T.StructType(
    [
        T.StructField("id", T.IntegerType()),
        T.StructField(records.PARTITION, T.IntegerType()),
        T.StructField(records.OFFSET, T.LongType()),
        T.StructField(records.TIMESTAMP, T.TimestampType()),
    ]
)
PLACE = {"bucket": "/", "path": "x"}


def test_the_table_of_another_writer_is_used_when_its_first_commit_is_still_to_come(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    elsewhere, path = tmp("elsewhere"), tmp("orders")
    made = tables.create(spark, TableRef(path=elsewhere), SCHEMA, Destination(**PLACE))
    first = "_delta_log/00000000000000000000.json"
    (Path(path) / first).parent.mkdir(parents=True)
    written = Path(path) / "_delta_log/.00000000000000000000.json.0.tmp"
    written.write_bytes((Path(elsewhere) / first).read_bytes())
    looked: list[float] = []

    def sleep(seconds: float) -> None:
        looked.append(seconds)
        if len(looked) == 3:
            written.rename(Path(path) / first)

    found = tables.create(spark, TableRef(path=path), SCHEMA, Destination(**PLACE), sleep=sleep)
    assert found.id == made.id
    assert len(looked) == 3

    given_up = tmp("given_up")
    (Path(given_up) / "_delta_log").mkdir(parents=True)
    (Path(given_up) / "_delta_log/.00000000000000000000.json.0.tmp").touch()
    with pytest.raises(LedgerError, match="a log folder without a commit"):
        tables.create(spark, TableRef(path=given_up), SCHEMA, Destination(**PLACE), sleep=looked.append)


@pytest.mark.parametrize("name", ["absent.orders", "elsewhere.absent.orders"])
def test_the_answer_names_what_to_create_when_a_table_has_no_schema_or_catalog(
    spark: SparkSession, name: str
) -> None:
    def begin() -> None:
        table = TableRef(name=name)
        if tables.describe(spark, table) is None:
            tables.create(spark, table, SCHEMA, Destination(table=name))

    with pytest.raises(LedgerError, match=f"there is no place for {name}: ") as raised:
        begin()

    assert "create its schema first" in str(raised.value)
