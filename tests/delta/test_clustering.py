"""Liquid clustering of a table that Tidemark creates."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination
from tidemark.contract.errors import SchemaConflict
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.sink import table as tables
from tidemark.sink.append import append

DDL = (
    "id INT, name STRING, stream_topic_id STRING, stream_partition INT, stream_offset BIGINT,"
    " message_timestamp TIMESTAMP"
)


def test_a_table_is_clustered_by_the_columns_that_the_configuration_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = TableRef(path=str(tmp_path / "t"))
    schema = spark.createDataFrame([], DDL).schema
    place = {"bucket": str(tmp_path), "path": "t"}
    tables.create(spark, table, schema, Destination(**place, cluster_by=("stream_offset", "id")))
    for number in range(2):
        own = LedgerCommit(
            kind=CommitKind.BATCH,
            stream="s",
            topic_id="topic",
            token=f"run/{number}/1",
            seq=number + 1,
            base=number,
            marks=Marks({0: number + 1}),
        )
        rows = spark.createDataFrame([(number, "n", "topic", 0, number, None)], DDL).coalesce(1)
        assert append(rows, table, own).version == number + 1
    spark.sql(f"OPTIMIZE {table.sql}").collect()
    detail = spark.sql(f"DESCRIBE DETAIL {table.sql}").first()
    assert detail is not None
    assert (detail["clusteringColumns"], detail["numFiles"]) == (["stream_offset", "id"], 1)
    with pytest.raises(SchemaConflict, match="cluster-by: the table has no column nothing"):
        tables.create(
            spark, TableRef(path=str(tmp_path / "u")), schema, Destination(**place, cluster_by=("nothing",))
        )
