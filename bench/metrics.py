"""What watching costs: the same ingest in turn with all telemetry and with none, in one JVM.

With: metrics, the metrics table, health, and a process that scrapes both endpoints each second. Told are the
CPU seconds of this process and its JVM per million records (without broker and scraper) and the seconds, from
the end of each run's first batch to the end of its last, so that starts do not count; medians and all rounds.
Besides, measured directly: the time that a batch spends in its observers, the CPU time of telemetry's
threads, and that of the metrics table's appends. One percent is less than two equal runs differ by.

Options: `--records` of a run, `--batch`, `--rounds` (each of two runs), `--out` (folder of `metrics.json`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from load import Load
from machine import machine
from meter import cpu_seconds
from pyspark.sql import SparkSession
from rich.console import Console
from rivals import settings_of
from samples import Samples

from tidemark.config.destination import TableRef
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import Event, StreamObserver
from tidemark.contract.marks import Marks
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic, produce
from tidemark.ingest.application import Ingest
from tidemark.ingest.monitoring.metrics_table import MetricsTable, pause_after
from tidemark.ingest.monitoring.telemetry import telemetry_of
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.recording import MetricsObserver
from tidemark.platform.session import local_session

SCRAPER = """
import sys, time, urllib.request
while True:
    for path in ("/actuator/prometheus", "/actuator/health"):
        try:
            urllib.request.urlopen(sys.argv[1] + path, timeout=5).read()
        except OSError:
            pass
    time.sleep(1)
"""
APPENDS = 12


@dataclass
class Run:
    """One ingest between the ends of its first and its last batch. `observing`: seconds in observers."""

    records: int = 0
    batches: int = 0
    cpu: float = 0.0
    seconds: float = 0.0
    observing: float = 0.0
    threads: float = 0.0

    @property
    def cpu_per_million(self) -> float:
        return self.cpu / self.records * 1e6


@dataclass
class Stopwatch(MetricsObserver):
    """The one observer of a run: forwards to `watching`, and takes the time. Being a `MetricsObserver`, it
    keeps the ingest from watching itself.
    """

    without: frozenset[int]
    watching: list[StreamObserver] = field(default_factory=list)
    run: Run = field(default_factory=Run)
    _from: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        super().__init__(Metrics())

    def emit(self, event: Event) -> None:
        began = time.perf_counter()
        for observer in self.watching:
            observer.emit(event)
        spent = time.perf_counter() - began
        if not isinstance(event, BatchReport) or not event.read:
            return
        now = (cpu_seconds(self.without), time.monotonic(), telemetry_cpu())
        if self._from is None:
            self._from = now
            return
        run = self.run
        run.records += event.read
        run.batches += 1
        run.observing += spent
        run.cpu, run.seconds, run.threads = (b - a for a, b in zip(self._from, now, strict=True))


def telemetry_cpu() -> float:
    """CPU seconds so far of telemetry's own threads in this process; Spark's part is not in it."""
    ours = {t.native_id for t in threading.enumerate() if t.name in THREADS}
    return sum(t.user_time + t.system_time for t in psutil.Process().threads() if t.id in ours)


THREADS = ("tidemark-watch", "tidemark-http", "tidemark-metrics")


@contextmanager
def scraped(url: str | None) -> Iterator[int]:
    """A process of its own that reads the endpoints each second; its id."""
    scraper = subprocess.Popen([sys.executable, "-c", SCRAPER, str(url)])
    try:
        yield scraper.pid
    finally:
        scraper.kill()
        scraper.wait()


def ingest(spark: SparkSession, load: Load, place: Path, brokers: frozenset[int], *, watched: bool) -> Run:
    settings = settings_of(load, place)
    if not watched:
        watch = Stopwatch(brokers)
        (outcome,) = Ingest(spark, settings, available_now=True, observers=[watch]).run()
    else:
        section = type(settings.metrics).model_validate(
            {"enabled": True, "port": 0, "table": {"bucket": str(place), "path": "metrics"}}
        )
        settings = replace(settings, metrics=section)
        with telemetry_of(settings, spark) as telemetry, scraped(telemetry.url) as scraper:
            watch = Stopwatch(brokers | {scraper}, list(telemetry.observers))
            (outcome,) = Ingest(spark, settings, available_now=True, observers=[watch]).run()
    if outcome.error is not None:
        raise outcome.error
    return watch.run


def append_cost(spark: SparkSession, place: Path, brokers: frozenset[int]) -> tuple[float, float]:
    """CPU seconds and seconds of one append of a minute's rows to the metrics table, as medians."""
    table = MetricsTable(spark, TableRef(path=str(place / "metrics")), Metrics(), application="bench")
    marks = Marks({p: 100_000 for p in range(6)})
    cpu, seconds = [], []
    for _ in range(APPENDS):
        for batch in range(60):
            table.emit(BatchReport("events", batch, 9, 9, 0, 0, 0, 0, batch, marks))
        began = (cpu_seconds(brokers), time.monotonic())
        table.flush()
        cpu.append(cpu_seconds(brokers) - began[0])
        seconds.append(time.monotonic() - began[1])
    return statistics.median(cpu[2:]), statistics.median(seconds[2:])


def main() -> None:
    asked = _arguments()
    console = Console(highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-bench-"))
    found: dict[bool, list[Run]] = {True: [], False: []}
    try:
        with EmbeddedBroker(folder / "broker") as broker:
            load = Load(broker.bootstrap, "watched", asked.records, asked.batch)
            create_topic(load.bootstrap, load.topic, 2, retention_ms="-1")
            produce(load.bootstrap, load.topic, Samples(asked.records).of("JSON"))
            brokers = frozenset(p.pid for p in psutil.Process().children(recursive=True))
            spark = local_session(
                "tidemark-bench-metrics",
                master="local[2]",
                extra_conf={"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder / "spark")},
            )
            for number in range(asked.rounds + 1):
                # Each way is first in every other round.
                for watched in (number % 2 == 0, number % 2 == 1):
                    place = folder / f"{number}-{watched}"
                    place.mkdir()
                    run = ingest(spark, load, place, brokers, watched=watched)
                    which = f"round {number}" if number else "warm-up"
                    costs = f"{run.cpu_per_million:.2f} CPU s a million, {run.seconds:.1f} s"
                    console.print(f"{which}: {'watched' if watched else 'alone'}: {costs}")
                    if number:
                        found[watched].append(run)
                    shutil.rmtree(place, ignore_errors=True)
            append = append_cost(spark, folder, brokers)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result = _result(found, append, asked)
    console.print_json(json.dumps(result))
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "metrics.json").write_text(json.dumps(result, indent=1) + "\n")


def _result(
    found: dict[bool, list[Run]], append: tuple[float, float], asked: argparse.Namespace
) -> dict[str, Any]:
    """Shares are of what the ingest itself takes. An append comes as seldom as `pause_after` lets it."""
    on, off = found[True], found[False]
    cpu = {w: [r.cpu_per_million for r in runs] for w, runs in found.items()}
    seconds = {w: [r.seconds for r in runs] for w, runs in found.items()}
    busy = statistics.median(r.cpu / r.seconds for r in off)
    every = pause_after(append[1], every=10.0)
    return {
        "machine": machine(),
        "records": asked.records,
        "batch": asked.batch,
        "cpu_ratio": statistics.median(cpu[True]) / statistics.median(cpu[False]),
        "time_ratio": statistics.median(seconds[True]) / statistics.median(seconds[False]),
        "cpu_spread_alone": [min(cpu[False]), statistics.median(cpu[False]), max(cpu[False])],
        "cpu_spread_watched": [min(cpu[True]), statistics.median(cpu[True]), max(cpu[True])],
        "direct": {
            "observers_ms_per_batch": statistics.median(r.observing / r.batches for r in on) * 1e3,
            "observers_share_of_time": statistics.median(r.observing / r.seconds for r in on),
            "threads_share_of_cpu": statistics.median(r.threads / r.cpu for r in on),
            "append_cpu_s": append[0],
            "append_every_s": every,
            "append_share_of_cpu": append[0] / (every * busy),
        },
        "rounds": {str(w): [asdict(r) for r in runs] for w, runs in found.items()},
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
