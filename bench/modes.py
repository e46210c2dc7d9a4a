"""What each way to be idempotent costs, side by side, on a small table and on one of 100 times the rows.

Run it with `python bench/modes.py [records per batch]`. Each mode has a topic and a table of its own on one
embedded broker; batches go through the whole job, from Kafka to the commit. Measured are the middle of the
last batches of each size of table, the time per record of a large batch, and what the memory of
`fingerprint` takes (as Spark reports it), beside the claims of the source document.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from rich.console import Console
from rich.table import Table

from tidemark.config.load import parse_settings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.observer import SilentObserver
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, create_topic, produce
from tidemark.pipeline.ingest import Ingest
from tidemark.platform.session import local_session

TIMES = 100
BATCHES = 7
COUNTED = 5
WAYS: dict[str, dict[str, Any]] = {
    "kafka-native": {"mode": "kafka-native"},
    "merge, insert-only": {"mode": "merge"},
    "merge, by entity": {"mode": "merge", "merge-keys": ["id"]},
    "fingerprint": {"mode": "fingerprint"},
}
CLAIMS = (
    ("kafka-native", "about 10 MB (elsewhere 50 MB), under 1 ms a record"),
    ("fingerprint", "250 MB and more, 10 to 50 ms a record; the other way saves about 80 % of memory"),
)


@dataclass
class Reports(SilentObserver):
    kept: list[BatchReport] = field(default_factory=list)

    def batch_landed(self, report: BatchReport) -> None:
        if report.read:
            self.kept.append(report)


class StateSize(StreamingQueryListener):
    """The largest state that a query reported: bytes of memory, and rows."""

    def __init__(self) -> None:
        self.bytes = self.rows = 0

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        for operator in event.progress.stateOperators:
            self.bytes = max(self.bytes, operator.memoryUsedBytes)
            self.rows = max(self.rows, operator.numRowsTotal)


@dataclass
class Measured:
    """Seconds of the middle batch at one and at 100 times the rows; microseconds a record in bulk."""

    small: float
    large: float
    bulk_us: float
    state: StateSize

    @property
    def ratio(self) -> float:
        return self.large / self.small


def measure(spark: SparkSession, bootstrap: str, way: str, folder: Path, batch: int) -> Measured:
    topic = way.replace(", ", "-").replace(" ", "-")
    create_topic(bootstrap, topic, 2)
    state = StateSize()
    spark.streams.addListener(state)
    sent = 0

    def land(records: int, most: int) -> list[BatchReport]:
        nonlocal sent
        numbers = range(sent, sent + records)
        produce(bootstrap, topic, [SampleRecord(payload(n), partition=n % 2) for n in numbers])
        sent += records
        reports = Reports()
        settings = settings_of(bootstrap, topic, WAYS[way], folder / topic, most)
        outcome = Ingest(spark, settings, available_now=True, observers=[reports]).run()[0]
        if outcome.error is not None:
            raise outcome.error
        return reports.kept

    small = land(batch * BATCHES, batch)[-COUNTED:]
    bulk = land(batch * TIMES, batch * TIMES)
    large = land(batch * BATCHES, batch)[-COUNTED:]
    spark.streams.removeListener(state)
    return Measured(
        statistics.median(r.seconds for r in small),
        statistics.median(r.seconds for r in large),
        sum(r.seconds for r in bulk) / sum(r.read for r in bulk) * 1e6,
        state,
    )


def payload(number: int) -> bytes:
    return json.dumps(
        {"id": number, "name": f"order number {number} of the day", "amount": number % 97}
    ).encode()


def settings_of(bootstrap: str, topic: str, way: dict[str, Any], folder: Path, most: int) -> Any:
    stream = {
        "kafka-topic": topic,
        "supported-formats": ["JSON"],
        "schema": {"ddl": "id INT NOT NULL, name STRING, amount INT"},
        "destination": {"bucket": str(folder), "path": "table"},
        "idempotency": way,
        "processing": {"batch-size": most, "max-batch-size": most},
    }
    text = {
        "kafka": {"bootstrap-servers": bootstrap, "consumer": {"group-id": "bench"}},
        "connector": {"topics": {"bench": stream}},
        "checkpoint-root": str(folder / "checkpoints"),
        "state-dir": str(folder / "state"),
    }
    return parse_settings(json.dumps(text), root=folder)


def main(batch: int) -> None:
    spark = local_session("tidemark-bench-modes", master="local[2]")
    with tempfile.TemporaryDirectory() as name, EmbeddedBroker() as broker:
        # The first mode would pay for the warm-up of all.
        measure(spark, broker.bootstrap, next(iter(WAYS)), Path(name) / "warm-up", max(20, batch // 20))
        found = {}
        for way in WAYS:
            folder = Path(name) / "measured"
            found[way] = measure(spark, broker.bootstrap, way, folder, batch)
    report(batch, found)
    spark.stop()


def report(batch: int, found: dict[str, Measured]) -> None:
    base = next(iter(found.values()))
    table = Table(
        "mode",
        "batch, s",
        f"batch at {TIMES}×, s",
        "ratio",
        "over kafka-native",
        "bulk, µs a record",
        "state, MB",
        "state, bytes an entry",
        title=f"batches of {batch:,}, tables of {batch * BATCHES:,} and {batch * (BATCHES + TIMES):,}",
    )
    for way, m in found.items():
        table.add_row(way, *_cells(m, base))
    console = Console(width=150)
    console.print(table)
    for way, claim in CLAIMS:
        console.print(f"The source document claims for {way}: {claim}.")


def _cells(m: Measured, base: Measured) -> Sequence[str]:
    per_entry = f"{m.state.bytes / m.state.rows:,.0f}" if m.state.rows else "-"
    return (
        f"{m.small:.2f}",
        f"{m.large:.2f}",
        f"{m.ratio:.2f}",
        f"{m.small / base.small:.2f} ×",
        f"{m.bulk_us:,.1f}",
        f"{m.state.bytes / 1e6:,.1f}" if m.state.rows else "0",
        per_entry,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
