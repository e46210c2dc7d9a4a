"""The main job over Spark Connect: run as a process of its own, because a process has one kind of Spark."""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path

import httpx
from pyspark.sql import SparkSession

from tidemark.config.reading.load import load_settings
from tidemark.ingest.application import Ingest
from tidemark.ingest.monitoring.telemetry import telemetry_of


def seen_from_outside(url: str) -> dict[str, object]:
    """State and lag of the stream, once the watch has read the table's log."""
    deadline = time.monotonic() + 30
    while True:
        found = httpx.get(f"{url}/actuator/health/streams", timeout=10).json()
        stream = found.get("details", {}).get("events", {})
        if stream.get("lastCommitAgeSeconds") is not None and stream["lag"] == 0:
            return {"state": stream["state"], "lag": stream["lag"]}
        if time.monotonic() > deadline:
            return {"health": found}
        time.sleep(0.2)


def main(config: Path) -> None:
    settings = load_settings(str(config))
    spark = SparkSession.builder.getOrCreate()
    run_id = uuid.uuid4().hex
    with telemetry_of(settings, spark, run=run_id) as telemetry:
        watching = telemetry.observers
        outcome = Ingest(spark, settings, available_now=True, observers=watching, run_id=run_id).run()[0]
        health = seen_from_outside(str(telemetry.url))
    rows = spark.read.format("delta").load(str(settings.tables("events")["decoded"].path))
    ids = sorted(row["id"] for row in rows.select("id").collect())
    table = spark.read.format("delta").load(str(config.parent / "lake" / "metrics"))
    measured = table.where(f"run = '{run_id}'").groupBy().sum("read", "rejected").first()
    value = telemetry.metrics.total
    health["metrics"] = {
        "read": value("tidemark_records_read_total", stream="events"),
        "rejected": value("tidemark_dead_letters_total", stream="events", code="TYPE_MISMATCH"),
        "committed": value("tidemark_delta_commits_total", stream="events", outcome="committed") >= 1,
        "latency": value("tidemark_batch_latency_seconds_sum", stream="events") > 0,
        "table": list(measured) if measured else [],
    }
    result = {"session": type(spark).__module__, "error": repr(outcome.error), "ids": ids, **health}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
