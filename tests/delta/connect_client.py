"""The main job over Spark Connect: run as a process of its own, because a process has one kind of Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidemark.config.load import load_settings
from tidemark.pipeline.ingest import Ingest


def main(config: Path) -> None:
    settings = load_settings(str(config))
    spark = SparkSession.builder.getOrCreate()
    outcome = Ingest(spark, settings, available_now=True).run()[0]
    rows = spark.read.format("delta").load(str(settings.tables("events")["decoded"].path))
    ids = sorted(row["id"] for row in rows.select("id").collect())
    told = {"session": type(spark).__module__, "error": repr(outcome.error), "ids": ids}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
