"""Real errors, provoked from real Spark, Delta, Kafka and S3. Each function raises what it is named for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import confluent_kafka as kafka
from botocore.config import Config
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.contract.errors import Fenced, RestartStream

NOBODY = "127.0.0.1:1"


def _blocked(spark: SparkSession, folder: Path) -> DataFrame:
    """Rows that come only when `folder/go` is there; `folder/started` tells that they are waited for."""
    started, go = str(folder / "started"), str(folder / "go")

    # Without type hints: Spark takes their presence for a vectorised function.
    def wait(value):
        Path(started).touch()
        deadline = time.monotonic() + 60
        while not Path(go).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return value

    return spark.range(1).select(F.udf(wait, "bigint")("id").alias("id"))


def _while_blocked(folder: Path, write: Callable[[], None], intrude: Callable[[], None]) -> None:
    """Runs `intrude` after `write` has begun; raises what `write` raises."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            write()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    while not (folder / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    intrude()
    (folder / "go").touch()
    thread.join()
    raise failed[0]


def concurrent_append(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    spark.range(3).write.format("delta").save(table)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')")
    rows = _blocked(spark, folder)
    _while_blocked(
        folder,
        lambda: rows.write.format("delta").mode("overwrite").option("replaceWhere", "id < 1").save(table),
        lambda: spark.range(1).write.format("delta").mode("append").save(table),
    )


def concurrent_delete(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    spark.range(3).coalesce(1).write.format("delta").save(table)
    rows = _blocked(spark, folder)
    _while_blocked(
        folder,
        lambda: rows.write.format("delta").mode("overwrite").option("replaceWhere", "id < 1").save(table),
        lambda: spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 0").collect(),
    )


def concurrent_transaction(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    spark.range(3).write.format("delta").save(table)

    def append(rows: DataFrame, version: int) -> None:
        options = {"txnAppId": "tidemark:orders", "txnVersion": version}
        rows.write.format("delta").mode("append").options(**options).save(table)

    rows = _blocked(spark, folder)
    _while_blocked(folder, lambda: append(rows, 5), lambda: append(spark.range(1), 5))


def table_changed(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    spark.range(3).write.format("delta").save(table)
    rows = _blocked(spark, folder)
    _while_blocked(
        folder,
        lambda: rows.write.format("delta").mode("append").save(table),
        lambda: spark.sql(f"ALTER TABLE delta.`{table}` ADD COLUMNS (more STRING)").collect(),
    )


def unknown_feature(spark: SparkSession, folder: Path) -> None:
    _created(spark, folder, {"delta.feature.nothing": "supported"})


def unknown_column_mapping(spark: SparkSession, folder: Path) -> None:
    _created(spark, folder, {"delta.columnMapping.mode": "sideways"})


def reserved_column(spark: SparkSession, folder: Path) -> None:
    _created(spark, folder, {"delta.enableChangeDataFeed": "true"}, column="_change_type")


def unsupported_clustering(spark: SparkSession, folder: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{folder}/table` (a MAP<STRING, STRING>) USING delta CLUSTER BY (a)")


def _created(spark: SparkSession, folder: Path, properties: dict[str, str], *, column: str = "name") -> None:
    named = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    table = f"delta.`{folder}/table` (id INT, {column} STRING)"
    spark.sql(f"CREATE TABLE {table} USING delta TBLPROPERTIES ({named})")


def missing_table(spark: SparkSession, folder: Path) -> None:
    spark.table("nowhere.orders").collect()


def missing_path(spark: SparkSession, folder: Path) -> None:
    spark.read.format("delta").load(str(folder / "missing")).collect()


def schema_mismatch(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    spark.range(3).write.format("delta").save(table)
    spark.range(1).withColumn("more", F.lit("x")).write.format("delta").mode("append").save(table)


def type_mismatch(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    spark.range(3).write.format("delta").save(table)
    rows = spark.range(1).select(F.array(F.col("id")).alias("id"))
    rows.write.format("delta").mode("append").option("mergeSchema", "true").save(table)


def violated_constraint(spark: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT NOT NULL) USING delta")
    spark.sql(f"INSERT INTO delta.`{table}` VALUES (NULL)").collect()


def deleted_data_file(spark: SparkSession, folder: Path) -> None:
    table = folder / "table"
    spark.range(3).coalesce(1).write.format("delta").save(str(table))
    for file in table.glob("*.parquet"):
        file.unlink()
    spark.read.format("delta").load(str(table)).collect()


def unknown_scheme(spark: SparkSession, folder: Path) -> None:
    spark.read.parquet("nosuchstore://bucket/table").collect()


def file_in_the_way(spark: SparkSession, folder: Path) -> None:
    (folder / "file").write_text("not a folder")
    spark.range(1).write.parquet(str(folder / "file" / "table"))


def bad_cast(spark: SparkSession, folder: Path) -> None:
    spark.range(2).select(F.concat(F.lit("x"), F.col("id").cast("string")).cast("int")).collect()


def raised_in_sql(spark: SparkSession, folder: Path) -> None:
    spark.range(1).select(F.raise_error(F.lit("something odd happened"))).collect()


def bug_in_task(spark: SparkSession, folder: Path) -> None:
    spark.range(1).select(F.udf(lambda value: value + "text", "string")("id")).collect()


def _in_batch(spark: SparkSession, folder: Path, error: Exception) -> None:
    source = folder / "source"
    spark.range(1).write.format("delta").save(str(source))

    def fail(batch: DataFrame, batch_id: int) -> None:
        raise error

    stream = spark.readStream.format("delta").load(str(source)).writeStream.foreachBatch(fail)
    query = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def fenced_in_batch(spark: SparkSession, folder: Path) -> None:
    _in_batch(spark, folder, Fenced("another writer holds the ledger of orders", "stop one of the two"))


def restart_in_batch(spark: SparkSession, folder: Path) -> None:
    _in_batch(spark, folder, RestartStream("the batch does not join the marks"))


def missing_table_in_batch(spark: SparkSession, folder: Path) -> None:
    source = folder / "source"
    spark.range(1).write.format("delta").save(str(source))

    def fail(batch: DataFrame, batch_id: int) -> None:
        batch.sparkSession.table("nowhere.orders").collect()

    stream = spark.readStream.format("delta").load(str(source)).writeStream.foreachBatch(fail)
    query = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def _from_kafka(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    quick = {"kafka.request.timeout.ms": "1000", "kafka.default.api.timeout.ms": "2000"}
    return reader.options(**quick, **options).option("subscribe", topic).load()


def kafka_address_in_spark(spark: SparkSession, folder: Path) -> None:
    _from_kafka(spark, NOBODY, "orders").collect()


def kafka_topic_in_spark(spark: SparkSession, bootstrap: str, topic: str) -> None:
    _from_kafka(spark, bootstrap, "no-such-topic").collect()


def kafka_too_large_in_spark(spark: SparkSession, bootstrap: str, topic: str) -> None:
    rows = spark.range(1).select(F.expr("repeat('x', 4096)").alias("value"))
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).option("kafka.max.request.size", "1024").save()


def kafka_password_in_spark(spark: SparkSession, address: str) -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    _from_kafka(
        spark,
        address,
        "orders",
        **{
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{login} required username="tidemark" password="wrong";',
        },
    ).collect()


def kafka_address() -> None:
    client = kafka.Consumer({"bootstrap.servers": NOBODY, "group.id": "g", "log_level": 0})
    try:
        client.list_topics(timeout=1)
    finally:
        client.close()


def kafka_topic(bootstrap: str, topic: str) -> None:
    consumer = kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0})
    try:
        consumer.get_watermark_offsets(kafka.TopicPartition("no-such-topic", 0), timeout=5)
    finally:
        consumer.close()


def kafka_too_large(bootstrap: str, topic: str) -> None:
    """`topic` takes 1,000 bytes: the broker refuses, and the delivery report says so."""
    failed: list[Any] = []
    producer = kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b"x" * 4096, on_delivery=lambda error, message: failed.append(error))
    producer.flush(10)
    raise kafka.KafkaException(failed[0])


ANSWERS = {
    "access-denied": (403, "AccessDenied", {}),
    "slow-down": (503, "SlowDown", {"Retry-After": "3"}),
    "internal-error": (500, "InternalError", {}),
    "request-timeout": (400, "RequestTimeout", {}),
    "no-such-bucket": (404, "NoSuchBucket", {}),
    "expired-token": (400, "ExpiredToken", {}),
}


@contextmanager
def s3_that_answers(status: int, code: str, headers: dict[str, str]) -> Iterator[str]:
    """A real HTTP server that answers every S3 request with that error; gives its URL."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code} it is</Message></Error>".encode()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in {**headers, "Content-Type": "application/xml"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_PUT = do_HEAD = do_POST = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def put_object(endpoint: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=5),
    )
    try:
        client.put_object(Bucket="lake", Key="orders/part-0", Body=b"x")
    finally:
        client.close()
