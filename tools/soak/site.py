"""The parts of a soak: a broker, a continuous load of records, the table, and the writer that lands them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING

import yaml

from tidemark.config.destination import TableRef
from tidemark.config.reading.load import load_settings
from tidemark.config.settings import Settings
from tidemark.contract.marks import Marks
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.demo.audit import Coordinates
from tidemark.dev.demo.configuration import PARTITIONS, TOPIC, DemoFiles, write_configuration
from tidemark.dev.producers import create_topic, produce
from tidemark.dev.samples import SampleEvent, sample_events
from tidemark.platform.session import get_session
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.table_log import DeltaLog
from tidemark.source.topics import KafkaAdmin
from tools.soak.writer import SoakWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROCESSING = {
    "batch-size": 1,
    "flush-interval": 1,
    "poll-interval": 0.2,
    "max-batch-size": 3_000,
    "max-retries": 1,
}
_BREAKER = {"failure-threshold": 2, "open-seconds": 2, "success-threshold": 1}
_EVERY_S = 0.5
_SPAN = timedelta(days=2)
_PATIENCE_S = 300.0


@dataclass
class Load:
    """Produces records continuously in a separate thread; `produced` has the acknowledged ones, by coordinates."""

    bootstrap: str
    topic_id: str
    seed: int
    produced: dict[Coordinates, SampleEvent] = field(default_factory=dict)
    failure: BaseException | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _chunks: int = 0
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="soak-load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the last record is acknowledged. Raises the error that ended the thread, if any."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        if self.failure is not None:
            raise self.failure

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def burst(self, count: int, *, bad_share: float = 0.05) -> None:
        """So many records at once, acknowledged when it returns."""
        with self._one_at_a_time:
            self._chunks += 1
            events = list(
                sample_events(
                    count,
                    seed=self.seed * 1_000_003 + self._chunks,
                    bad_share=bad_share,
                    tombstone_share=0.005,
                    every=_SPAN / count,
                )
            )
            places = produce(self.bootstrap, TOPIC, (e.record for e in events), timeout=_PATIENCE_S)
            self.produced.update(
                (Coordinates(self.topic_id, place.partition, place.offset), event)
                for place, event in zip(places, events, strict=True)
            )

    def _run(self) -> None:
        chance = Random(self.seed)
        try:
            while not self._ended.wait(_EVERY_S):
                self.burst(chance.randint(20, 200))
        except BaseException as error:
            self.failure = error


@dataclass
class SoakSite:
    """The objects that faults act on. `chance` is the only source of randomness of the faults."""

    files: DemoFiles
    broker: EmbeddedBroker
    settings: Settings
    load: Load
    writer: SoakWriter
    chance: Random

    @classmethod
    def prepared(cls, files: DemoFiles, broker: EmbeddedBroker, seed: int) -> SoakSite:
        """The demo's stream on a new topic, with small batches, short retries and a quick breaker."""
        create_topic(broker.bootstrap, TOPIC, PARTITIONS, retention_ms="-1")
        write_configuration(files, bootstrap=broker.bootstrap, records=1)
        document = yaml.safe_load(files.configuration.read_text())
        (stream,) = document["connector"]["topics"].values()
        stream["processing"] = _PROCESSING
        stream["dead-letter"] = {"publish-timeout": 5}
        document["breaker"] = _BREAKER
        files.configuration.write_text(yaml.safe_dump(document, sort_keys=False))
        settings = load_settings(files.configuration)
        topic = KafkaAdmin(settings.kafka).describe(TOPIC)
        load = Load(broker.bootstrap, topic.id, seed)
        return cls(files, broker, settings, load, SoakWriter(files), Random(seed))

    @cached_property
    def spark(self) -> SparkSession:
        """The session of this process, for other programs' operations on the table; the writer has its own."""
        return get_session("tidemark-soak")

    @cached_property
    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.settings.kafka)

    @property
    def table(self) -> TableRef:
        return TableRef(path=str(self.files.table))

    def ends(self) -> Marks:
        return self.admin.ends(self.admin.describe(TOPIC))

    def accounted(self) -> Marks:
        """The marks up to which all records have landed, by the table's own log; empty without a table.

        While records are produced it is `published`: the next commit confirms the dead letters of the newest
        batch.
        """
        if not (self.files.table / "_delta_log").is_dir():
            return Marks()
        state = self._state()
        return state.marks if self.load.ended else state.published

    @property
    def replay_due(self) -> bool:
        """Whether dead letters of an outage are still to be replayed, by the table's log."""
        newest = self._state().newest
        return newest is not None and newest.replay_due > 0

    def _state(self) -> LedgerState:
        return read_state(DeltaLog(self.spark, self.table), accept_emptied=True)

    def read_the_rest(self) -> int:
        """Runs the writer until it has read all records; its exit code, 1 where it does not end."""
        self.writer.start("--available-now")
        code = self.writer.wait(_PATIENCE_S)
        return 1 if code is None else code
