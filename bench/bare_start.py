"""A bare Spark stream that starts, which reports each step on standard output, for `bench/start_timeline.py`.

python bench/bare_start.py BOOTSTRAP TOPIC FOLDER CONF DDL, where CONF is a JSON file of Spark's settings.
It imports nothing but what such a stream needs.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(bootstrap: str, topic: str, folder: str, conf: str, ddl: str) -> None:
    builder = SparkSession.builder.appName("bare")
    with open(conf, encoding="utf-8") as file:
        for name, value in json.load(file).items():
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    sys.stdout.write("session is there\n")
    sys.stdout.flush()
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


if __name__ == "__main__":
    main(*sys.argv[1:])
