"""A Spark Connect server of pyspark: makes the tables of a configuration, serves until its input ends."""

from __future__ import annotations

import sys
from pathlib import Path

from tidemark.config.load import load_settings
from tidemark.operations.jobs import create_tables_job
from tidemark.platform.session import local_session


def main(config: Path, port: str) -> None:
    spark = local_session(
        "connect-server",
        master="local[2]",
        extra_conf={
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": port,
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    create_tables_job(spark, load_settings(str(config)))
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
