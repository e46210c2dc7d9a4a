"""CREATE TABLE as text: names, comments and properties with any sign in them."""

from __future__ import annotations

from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.sink.statements import create_statement


def test_names_comments_and_nested_types_are_written_whole() -> None:
    inner = T.StructType(
        [T.StructField("a b", T.IntegerType(), nullable=False), T.StructField("c:d", T.DateType())]
    )
    schema = T.StructType(
        [
            T.StructField("i`d", T.LongType(), nullable=False, metadata={"comment": "it's \\ one"}),
            T.StructField("list", T.ArrayType(inner)),
            T.StructField("map", T.MapType(T.StringType(), T.DecimalType(10, 2))),
        ]
    )
    written = create_statement(
        TableRef(path="/lake/t"),
        schema,
        partitioned_by=["i`d"],
        properties={"delta.a": "it's"},
    )
    assert written == (
        "CREATE TABLE IF NOT EXISTS delta.`/lake/t` ("
        "`i``d` bigint NOT NULL COMMENT 'it\\'s \\\\ one', "
        "`list` ARRAY<STRUCT<`a b`: int NOT NULL, `c:d`: date>>, "
        "`map` MAP<string, decimal(10,2)>"
        ") USING DELTA PARTITIONED BY (`i``d`) TBLPROPERTIES ('delta.a' = 'it\\'s')"
    )
