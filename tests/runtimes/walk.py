"""The product's path in one process of any Spark: `walk.py CONFIG`. Prints what came of each step as JSON.

Records that land and that do not, a start again, dead letters, a replay, each mode, status and maintenance.
Streams are those of the configuration: `events` always; `people` (merge-keys) and `copies` (fingerprint)
where it has them.
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidemark.config.reading.load import load_settings
from tidemark.config.settings import Settings
from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.query import dead_letter_target
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.dead_letters.service import DeadLetters
from tidemark.dev.producers import SampleRecord, produce
from tidemark.operations.backfill import backfill
from tidemark.operations.compare import compare
from tidemark.operations.dead_letter_jobs import dead_letters_job, replay_job
from tidemark.operations.jobs import create_tables_job, ingest_job
from tidemark.operations.maintenance_job import maintenance_job
from tidemark.platform.capabilities import keeps_rows, observes_smallest, takes_settings
from tidemark.platform.open_session import session_for
from tidemark.streams.status import logs_of, status_of


def good(number: int, name: str = "") -> bytes:
    return json.dumps({"id": number, "name": name or f"n{number}"}).encode()


BAD = b'{"id": "not a number"}'
PEOPLE = [SampleRecord(good(1, "old"), b"1"), SampleRecord(good(1, "new"), b"1"), SampleRecord(good(2), b"2")]
COPIES = [good(1), good(1), good(2)]


class Walk:
    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.spark, self.settings = spark, settings
        self.results: dict[str, Any] = {}

    def produce(self, stream: str, values: list[Any]) -> None:
        if stream in self.settings.streams:
            topic = self.settings.stream(stream).kafka_topic
            produce(str(self.settings.kafka.bootstrap_servers), topic, values)

    def names(self, stream: str = "events") -> list[str]:
        rows = self.spark.table(self.settings.tables(stream)["decoded"].sql)
        return sorted(row["name"] for row in rows.select("name").collect())

    def steps(self) -> dict[str, Any]:
        spark, settings, results = self.spark, self.settings, self.results
        results["session"] = type(spark).__module__.removeprefix("pyspark.sql.").split(".")[0]
        results["has"] = {f.__name__: f(spark) for f in (observes_smallest, keeps_rows, takes_settings)}
        results["created"] = sorted(create_tables_job(spark, settings).values())
        results["again"] = sorted(create_tables_job(spark, settings).values())
        self.produce("events", [good(1), BAD, None, good(2)])
        self.produce("people", PEOPLE)
        self.produce("copies", COPIES)
        results["first"] = ingest_job(spark, settings)
        self.produce("events", [good(3), BAD])
        results["second"] = ingest_job(spark, settings)
        results["landed"] = {name: self.names(name) for name in settings.streams}
        results["letters"] = dead_letters_job(spark, settings, ["events"])
        results["dead letters again"] = dead_letters_job(spark, settings, ["events"])
        results["dry run"] = self.short(replay_job(spark, settings, "events"))
        results["still bad"] = self.short(replay_job(spark, settings, "events", dry_run=False))
        results["replayed"] = self.replay(PayloadEdit(patch={"id": 7, "name": "mended"}))
        results["replayed again"] = self.replay(PayloadEdit(patch={"id": 7, "name": "mended"}))
        results["names"] = self.names()
        results["status"] = {
            s.stream: {"lag": s.lag, "problem": s.problem, "kind": s.last_commit_kind}
            for name in settings.streams
            for s in status_of(logs_of(spark), settings, name)
        }
        results["backfill"] = self.backfill()
        table = settings.tables("events")["decoded"]
        results["compared"] = compare(spark, table, table).equal
        results["maintained"] = sorted({done["what"] for done in maintenance_job(spark, settings)})
        results["names after all"] = self.names()
        return results

    @staticmethod
    def short(done: dict[str, Any]) -> dict[str, Any]:
        return {key: done[key] for key in ("chosen", "resolved", "already", "rejected", "parked")}

    def replay(self, edit: PayloadEdit) -> dict[str, Any]:
        letters = DeadLetters.of(self.spark, self.settings, "events")
        return self.short(letters.replay(Selection(), edit=edit, by="the walk").as_dict())

    def backfill(self) -> dict[str, Any]:
        target = dead_letter_target(self.spark, self.settings, "events", run=uuid.uuid4().hex)
        done = backfill(
            self.spark, self.settings, target, start=Marks({0: 0}), end=Marks({0: 3}), dry_run=True
        )
        return {key: getattr(done, key) for key in ("read", "accepted", "changed", "missing", "rejected")}


def main(config: Path) -> None:
    settings = load_settings(str(config))
    results = Walk(session_for(settings), settings).steps()
    sys.stdout.write("\n" + json.dumps(results) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
