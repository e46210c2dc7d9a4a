"""One way of landing that runs on until SIGTERM, in a process of its own, for `bench/long.py`.

python bench/steady.py tidemark|bare BOOTSTRAP NAME BATCH FOLDER
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from load import Load
from pyspark.sql import SparkSession
from rivals import bare_writer, settings_of

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import Event, StreamObserver
from tidemark.ingest.application import Ingest
from tidemark.platform.session import local_session


class Counted(StreamObserver):
    def __init__(self) -> None:
        self.batches = self.read = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport):
            self.batches += bool(event.read)
            self.read += event.read


def tidemark(spark: SparkSession, load: Load, folder: Path) -> tuple[int, int]:
    counted = Counted()
    running = Ingest(spark, settings_of(load, folder, least=load.batch), observers=[counted])
    signal.signal(signal.SIGTERM, lambda *_: running.stop())
    (outcome,) = running.run()
    if outcome.error is not None:
        raise outcome.error
    return counted.batches, counted.read


def bare(spark: SparkSession, load: Load, folder: Path) -> tuple[int, int]:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    query = bare_writer(spark, load, folder, least=load.batch).trigger(processingTime="500 milliseconds")
    running = query.start(str(folder / "table"))
    batches = read = 0
    newest = -1
    while not stopping.wait(0.5):
        if running.exception() is not None:
            raise RuntimeError(f"stopped: {running.exception()}")
        # A batch that waits for records is told of too, by its number.
        for progress in (p for p in running.recentProgress if p.batchId > newest and p.numInputRows):
            newest = progress.batchId
            batches += 1
            read += progress.numInputRows
    running.stop()
    return batches, read


def main(way: str, bootstrap: str, name: str, batch: str, folder: str) -> None:
    place = Path(folder)
    spark = local_session(
        "tidemark-bench-long",
        master="local[2]",
        extra_conf={"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(place / "spark")},
    )
    load = Load(bootstrap, name, 0, int(batch))
    batches, read = (tidemark if way == "tidemark" else bare)(spark, load, place)
    (place / "batches.json").write_text(json.dumps({"batches": batches, "read": read}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
