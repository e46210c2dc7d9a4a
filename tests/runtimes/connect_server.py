"""A Spark Connect server with Delta, Kafka and Avro on the port given; serves until its input ends."""

from __future__ import annotations

import sys

from tidemark.platform.session import local_session


def main(port: str) -> None:
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
    sys.stdout.write("serving\n")
    sys.stdout.flush()
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
