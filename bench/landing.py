"""Topics and their tables, landed by the whole job in this process, batch by batch measured."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load import Load
from meter import cpu_seconds
from pyspark.sql import SparkSession
from rivals import settings_of
from samples import Samples

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import Event, StreamObserver
from tidemark.dev.producers import create_topic, produce
from tidemark.ingest.application import Ingest
from tidemark.platform.session import local_session

Found = dict[str, Any]
"""Figures by name; their units are in the names."""


@dataclass
class Sizes:
    """How much is measured with."""

    batch: int = 20_000
    batches: int = 6
    rounds: int = 2
    times: int = 100
    small: int = 1_000
    idle_s: float = 40.0
    tries: int = 10
    starts: int = 5
    streams: tuple[int, ...] = (1, 20, 100)
    partitions: tuple[int, ...] = (1, 6, 64, 500)

    @property
    def beside_a_failing_one(self) -> int:
        """Streams of the application of which one fails."""
        return min(20, max(self.streams))


QUICK = Sizes(
    batch=2_000, batches=4, rounds=1, idle_s=5.0, tries=3, starts=1, streams=(1, 3), partitions=(1, 16)
)
_AT_ONCE = 500_000
"""Records of one call to the producer, which remembers the place of each."""


@dataclass
class Costs(StreamObserver):
    """CPU and wall seconds of each batch, from the end of the one before. The first has the start in it."""

    without: frozenset[int]
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._at = (cpu_seconds(self.without), time.monotonic())

    def emit(self, event: Event) -> None:
        if not isinstance(event, BatchReport):
            return
        now = (cpu_seconds(self.without), time.monotonic())
        if event.read:
            self.cpu.append(now[0] - self._at[0])
            self.wall.append(now[1] - self._at[1])
        self._at = now


@dataclass
class Bench:
    """The broker, the folder and, where it is needed, the one Spark session of the measures."""

    bootstrap: str
    folder: Path
    sizes: Sizes
    without: frozenset[int]
    _made: int = 0
    _spark: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            self._spark = local_session(
                "tidemark-bench-growth",
                master="local[2]",
                extra_conf={
                    "spark.sql.shuffle.partitions": "2",
                    "spark.local.dir": str(self.folder / "spark"),
                },
            )
        return self._spark

    def stop_spark(self) -> None:
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def stream(
        self, *, partitions: int = 6, bad: float = 0.0, batch: int = 0, codec: str = "none"
    ) -> Landing:
        self._made += 1
        load = Load(self.bootstrap, f"growth-{self._made}", 0, batch or self.sizes.batch)
        create_topic(self.bootstrap, load.topic, partitions, retention_ms="-1")
        return Landing(self, load, bad, codec)

    def topic(self, partitions: int = 6, *, suffix: str = "") -> str:
        self._made += 1
        name = f"growth-{self._made}{suffix}"
        create_topic(self.bootstrap, name, partitions, retention_ms="-1")
        return name

    def send(self, topic: str, records: int, *, bad: float = 0.0, codec: str = "none") -> None:
        """`codec`: how the producer compresses its batches."""
        config = {"compression.type": codec}
        for start in range(0, records, _AT_ONCE):
            samples = Samples(min(_AT_ONCE, records - start), bad=bad)
            produce(self.bootstrap, topic, samples.of("JSON"), config=config)


@dataclass
class Landing:
    """A topic and its table. `land` sends records and lets the whole job run until they have landed."""

    bench: Bench
    load: Load
    bad: float
    codec: str

    def land(self, records: int, *, batch: int | None = None) -> Costs:
        self.bench.send(self.load.topic, records, bad=self.bad, codec=self.codec)
        load = self.load if batch is None else Load(self.load.bootstrap, self.load.name, 0, batch)
        folder = self.bench.folder / load.name
        folder.mkdir(exist_ok=True)
        costs = Costs(self.bench.without)
        ingest = Ingest(self.bench.spark, settings_of(load, folder), available_now=True, observers=[costs])
        (outcome,) = ingest.run()
        if outcome.error is not None:
            raise outcome.error
        return costs
