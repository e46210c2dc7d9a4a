"""The local session: UTC throughout, with Delta, Kafka and Avro, and what a test may rely on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, produce
from tidemark.platform.session import get_session, local_session
from tidemark.platform.spark_conf import local_conf


@pytest.mark.guarantee("case: time-03")
def test_session_jvm_and_python_live_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("SELECT java_method('java.util.TimeZone', 'getDefault')").head()[0].count("UTC") >= 1
    moment = spark.sql("SELECT TIMESTAMP '2024-07-15T12:00:00Z'").head()[0]
    assert moment == datetime(2024, 7, 15, 12)


@pytest.mark.guarantee("case: schema-02")
def test_a_value_is_stored_by_the_rules_of_ansi(spark: SparkSession) -> None:
    assert str(spark.conf.get("spark.sql.storeAssignmentPolicy")).upper() == "ANSI"


def test_a_delta_table_can_be_written_merged_and_restored(
    spark: SparkSession, tmp: Callable[[str], str]
) -> None:
    from delta.tables import DeltaTable

    path = tmp("numbers")
    spark.range(3).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    source = spark.range(2, 5).alias("new")
    table.alias("old").merge(source, "old.id = new.id").whenNotMatchedInsertAll().execute()
    assert_df_equality(table.toDF(), spark.range(5).toDF("id"), ignore_row_order=True, ignore_nullable=True)
    table.restoreToVersion(0)
    assert table.toDF().count() == 3


def test_delta_errors_arrive_as_python_exceptions(spark: SparkSession, tmp: Callable[[str], str]) -> None:
    path = tmp("typed")
    spark.range(1).write.format("delta").save(path)
    with pytest.raises(AnalysisException, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        spark.sql("SELECT 'x' AS id").write.format("delta").mode("append").save(path)


def test_kafka_and_avro_can_be_read(
    spark: SparkSession, broker: EmbeddedBroker, topic: Callable[..., str]
) -> None:
    from pyspark.sql.avro.functions import from_avro

    name = topic()
    produce(broker.bootstrap, name, [SampleRecord(b"\x0ahello", key=b"k", headers=[("h", b"v")])])
    read = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", name)
        .option("includeHeaders", "true")
        .load()
        .select("key", "headers", from_avro(F.col("value"), '"string"').alias("text"))
        .head()
    )
    assert read is not None
    assert (read.key, read.headers[0].value, read.text) == (b"k", b"v", "hello")


def test_the_running_session_is_used_again(spark: SparkSession) -> None:
    assert get_session("another") is spark
    assert local_session("another") is spark


def test_the_environment_and_the_caller_override_settings(tmp_path: Path) -> None:
    conf = local_conf(
        [tmp_path / "a.jar", tmp_path / "b.jar"],
        s3={"fs.s3a.endpoint": "http://127.0.0.1:9000"},
        environ={"TIDEMARK_DRIVER_MEMORY": "5g"},
    )
    assert conf["spark.driver.memory"] == "5g"
    assert conf["spark.jars"] == f"{tmp_path}/a.jar,{tmp_path}/b.jar"
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert local_conf([], environ={})["spark.driver.memory"] == "2g"
