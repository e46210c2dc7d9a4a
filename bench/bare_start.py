"""A bare Spark stream that starts, which reports each step on standard output, for `bench/start_timeline.py`.

python bench/bare_start.py BOOTSTRAP TOPIC FOLDER CONF DDL, where CONF is a JSON file of Spark's settings.
It imports nothing but what such a stream needs.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(bootstrap: str, topic: str, folder: str, conf: str, ddl: str) -> None:
    with open(conf, encoding="utf-8") as file:
        settings = SparkConf(loadDefaults=False).setAll(list(json.load(file).items()))
    report("imports are done")
    SparkContext._ensure_initialized(conf=settings)
    report("JVM runs")
    spark = SparkSession.builder.appName("bare").config(conf=settings).getOrCreate()
    report("session is there")
    # What follows is seen in Spark's own lines.
    spark.sparkContext.setLogLevel("INFO")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = records.select(
        F.from_json(F.col("value").cast("string"), ddl).alias("row"), "partition", "offset"
    ).select("row.*", "partition", "offset")
    query = (
        rows.writeStream.format("delta")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(processingTime="500 milliseconds")
        .start(f"{folder}/{topic}")
    )
    while query.isActive:
        time.sleep(0.5)
    raise SystemExit(f"stopped: {query.exception()}")


def report(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
