"""What each way to be idempotent costs, side by side, on a small table and on one of 100 times the rows.

Run it with `python bench/modes.py [records per batch]`. Each mode has a topic and a table of its own on one
embedded broker; batches go through the whole job, from Kafka to the commit. Measured are the middle batch on
either table, in turn, the time per record of large batches (the first mode pays for the warm-up there), and
what the memory of `fingerprint` takes as Spark reports it, beside the claims of the source document.
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

from tidemark.config.reading.load import parse_settings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import Event, StreamObserver
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, create_topic, produce
from tidemark.ingest.application import Ingest
from tidemark.platform.session import local_session

TIMES = 100
BATCHES = 5
ROUNDS = 2
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
class Reports(StreamObserver):
    kept: list[BatchReport] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        if isinstance(event, BatchReport) and event.read:
            self.kept.append(event)


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
class Stream:
    """A topic, a table and a mode. `land` produces records and lets the job run until they have landed."""

    spark: SparkSession
    bootstrap: str
    name: str
    way: dict[str, Any]
    folder: Path
    sent: int = 0

    def __post_init__(self) -> None:
        create_topic(self.bootstrap, self.name, 2)

    def land(self, records: int, most: int) -> list[BatchReport]:
        numbers = range(self.sent, self.sent + records)
        produce(self.bootstrap, self.name, [SampleRecord(payload(n), partition=n % 2) for n in numbers])
        self.sent += records
        reports = Reports()
        settings = settings_of(self.bootstrap, self.name, self.way, self.folder / self.name, most)
        outcome = Ingest(self.spark, settings, available_now=True, observers=[reports]).run()[0]
        if outcome.error is not None:
            raise outcome.error
        return reports.kept


@dataclass
class Measured:
    """Seconds of each batch on the small and the large table; microseconds a record in bulk."""

    bulk_us: float
    state: StateSize
    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.large) / statistics.median(self.small)


def measure(spark: SparkSession, bootstrap: str, folder: Path, batch: int) -> dict[str, Measured]:
    """All modes in turn, small and large table in turn, once everything is warm."""
    found: dict[str, Measured] = {}
    pairs: dict[str, tuple[Stream, Stream]] = {}
    for way, options in WAYS.items():
        name = way.replace(", ", "-").replace(" ", "-")
        small, large = (
            Stream(spark, bootstrap, f"{name}-{size}", options, folder) for size in ("small", "large")
        )
        state = StateSize()
        spark.streams.addListener(state)
        rows = batch * BATCHES * ROUNDS * TIMES
        bulk = large.land(rows, rows // 4)
        spark.streams.removeListener(state)
        small.land(batch, batch)
        found[way] = Measured(sum(r.seconds for r in bulk) / rows * 1e6, state)
        pairs[way] = (small, large)
    for _ in range(ROUNDS):
        for way, (small, large) in pairs.items():
            # The first batch of a query pays for its start.
            found[way].small += [r.seconds for r in small.land(batch * BATCHES, batch)[1:]]
            found[way].large += [r.seconds for r in large.land(batch * BATCHES, batch)[1:]]
    return found


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
        found = measure(spark, broker.bootstrap, Path(name), batch)
    report(batch, found)
    spark.stop()


def report(batch: int, found: dict[str, Measured]) -> None:
    base, rows = next(iter(found.values())), batch * BATCHES * ROUNDS
    table = Table(
        "mode",
        "batch, s",
        f"batch at {TIMES}×, s",
        "ratio",
        "over kafka-native",
        "bulk, µs a record",
        "state, MB",
        "state, bytes an entry",
        title=f"batches of {batch:,}, tables of up to {rows:,} and over {rows * TIMES:,} rows",
    )
    for way, m in found.items():
        table.add_row(way, *_cells(m, base))
    console = Console(width=150)
    console.print(table)
    for way, claim in CLAIMS:
        console.print(f"The source document claims for {way}: {claim}.")


def _cells(m: Measured, base: Measured) -> Sequence[str]:
    per_entry = f"{m.state.bytes / m.state.rows:,.0f}" if m.state.rows else "-"
    small = statistics.median(m.small)
    return (
        f"{small:.2f}",
        f"{statistics.median(m.large):.2f}",
        f"{m.ratio:.2f}",
        f"{small / statistics.median(base.small):.2f} ×",
        f"{m.bulk_us:,.1f}",
        f"{m.state.bytes / 1e6:,.1f}" if m.state.rows else "0",
        per_entry,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
