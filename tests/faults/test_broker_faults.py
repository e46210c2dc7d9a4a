"""One table of faults of the broker: produce, break in mid-batch, heal, and every record is there once.

The broker is this file's own: it is killed, stopped in its tracks, and loses a disk. One fault has a second
broker, which follows the first.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.stream_under_test import BAD, Reports, StreamUnderTest, good

from tidemark.config.kafka import KafkaSettings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import RetriableError
from tidemark.contract.events import Event, Paused
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.kafka_server import free_ports
from tidemark.dev.producers import admin, create_topic, delete_topic
from tidemark.ingest.application import Ingest, StreamOutcome
from tidemark.ingest.batch import handler as batch_module
from tidemark.source.topics import KafkaAdmin

pytestmark = pytest.mark.timeout(600)

QUICK = {"max-retries": 1, "batch-size": 1, "flush-interval": 1, "poll-interval": 0.1}
BREAKER = {"failure-threshold": 1, "open-seconds": 1, "success-threshold": 1}


@dataclass
class Watcher(Reports):
    """Keeps the pauses too, by what they waited for."""

    kept: list[BatchReport] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        super().emit(event)
        if isinstance(event, Paused):
            self.pauses.append(event.destination)


@dataclass
class Site:
    """`follower` runs only where a fault starts it."""

    events: StreamUnderTest
    follower: EmbeddedBroker

    @property
    def broker(self) -> EmbeddedBroker:
        return self.events.broker

    @property
    def dlq(self) -> str:
        return f"{self.events.topic}-dlq"


# A segment is rolled at each append that comes later than that after the one before.
ROLLING = {"segment.ms": "100"}


def alone(site: Site) -> None:
    create_topic(site.broker.bootstrap, site.dlq, 1, segment_ms="100")


def on_two_brokers(site: Site) -> None:
    site.follower.start()
    client = admin(site.broker.bootstrap)
    until(lambda: len(client.list_topics(timeout=10).brokers) == 2)
    wanted = {**ROLLING, "min.insync.replicas": "2"}
    topic = NewTopic(site.dlq, 1, replica_assignment=[[1, 2]], config=wanted)
    client.create_topics([topic])[site.dlq].result(30)


def lose_the_disk(site: Site) -> None:
    """The next append rolls a segment, which a folder that is a file now does not let it."""
    (folder,) = site.broker.folder.glob(f"disk-*/{site.dlq}-0")
    folder.rename(folder.with_name("taken-away"))
    folder.write_text("no folder")


def replace_the_disk(site: Site) -> None:
    (taken,) = site.broker.folder.glob("disk-*/taken-away")
    site.broker.kill()
    folder = taken.with_name(f"{site.dlq}-0")
    folder.unlink()
    taken.rename(folder)
    site.broker.start()


@dataclass(frozen=True)
class BrokerFault:
    """`strike` is called once, when a batch is at `step`; `heal` after `away` seconds, from elsewhere.

    `holds`: the stream waits for its DLQ, for longer than the retries; `heal` comes only then. `taken`: the
    dead letters of earlier batches that go with the fault. `prepare` makes the DLQ topic.
    """

    name: str
    step: str
    strike: Callable[[Site], None]
    heal: Callable[[Site], object]
    away: float = 1.0
    holds: bool = False
    taken: int = 0
    prepare: Callable[[Site], None] = alone


FAULTS = [
    BrokerFault("killed before the append", "_append", lambda s: s.broker.kill(), lambda s: s.broker.start()),
    BrokerFault(
        "killed before the dead letters", "_publish", lambda s: s.broker.kill(), lambda s: s.broker.start()
    ),
    BrokerFault(
        "slower than any timeout",
        "_publish",
        lambda s: s.broker.pause(),
        lambda s: s.broker.resume(),
        holds=True,
    ),
    BrokerFault(
        "DLQ topic with too few replicas in sync",
        "_publish",
        lambda s: s.follower.kill(),
        lambda s: s.follower.start(),
        holds=True,
        prepare=on_two_brokers,
    ),
    BrokerFault("DLQ topic's disk failed", "_publish", lose_the_disk, replace_the_disk, holds=True),
    # It is created again by the stream itself.
    BrokerFault(
        "DLQ topic deleted",
        "_publish",
        lambda s: delete_topic(s.broker.bootstrap, s.dlq),
        lambda s: None,
        away=0,
        taken=1,
    ),
]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """With two disks, and a third one for its own log: without that it would end."""
    folder = tmp_path_factory.mktemp("broker")
    disks = {
        "log.dirs": ",".join(str(folder / f"disk-{n}") for n in (1, 2)),
        "metadata.log.dir": str(folder / "metadata"),
    }
    with EmbeddedBroker(folder, properties=disks) as broker:
        yield broker


@pytest.fixture
def follower(own_broker: EmbeddedBroker, tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A second broker of the same cluster, to be started."""
    own_broker.start()
    leader = settings_in(own_broker.folder / "server.properties")
    cluster = settings_in(own_broker.folder / "disk-1/meta.properties")["cluster.id"]
    folder, (port,) = tmp_path / "follower", free_ports(1)
    (folder / "data").mkdir(parents=True)
    (folder / "data/meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=2\n")
    role = {
        "process.roles": "broker",
        "node.id": "2",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": leader["controller.quorum.voters"],
    }
    broker = EmbeddedBroker(folder, port=port, properties=role, heap="256m")
    yield broker
    if broker.running:
        broker.kill()
        # Until its session has ended, new topics may be placed on it.
        client = admin(own_broker.bootstrap)
        until(lambda: len(client.list_topics(timeout=10).brokers) == 1)


def settings_in(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)


@pytest.fixture
def site(spark: SparkSession, own_broker: EmbeddedBroker, follower: EmbeddedBroker, tmp_path: Path) -> Site:
    events = StreamUnderTest(spark, own_broker, f"t{time.monotonic_ns()}", tmp_path)
    events.options["dead-letter"] = {"publish-timeout": 2}
    create_topic(own_broker.bootstrap, events.topic, 1)
    return Site(events, follower)


def numbered(start: int, end: int) -> list[bytes]:
    """Each fifth one is bad."""
    return [BAD if i % 5 == 4 else good(i) for i in range(start, end)]


def accepted(count: int) -> list[int]:
    return [i for i in range(count) if i % 5 != 4]


def until(there: Callable[[], object], seconds: float = 200.0) -> None:
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def complete(watcher: Watcher, count: int) -> bool:
    """Whether that many are landed, and their dead letters acknowledged: a batch reports after both."""
    return bool(watcher.kept) and watcher.kept[-1].marks.at(0) == count


@pytest.mark.guarantee(
    "fault tolerance: Kafka fails",
    "bad day: broker killed, restarted, slow",
    "bad day: DLQ without replicas, with a failed disk, deleted",
    "fault: The broker is killed and started again, or is slower than any timeout, in mid-batch; "
    "the DLQ topic loses its disk or its replicas, or is deleted → "
    "The batch is kept and lands once; nothing is read past it until its dead letters are "
    "published. A deleted DLQ topic is created again",
)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_every_record_is_accounted_for_and_none_is_there_twice_when_the_broker_was(
    site: Site, monkeypatch: pytest.MonkeyPatch, fault: BrokerFault
) -> None:
    events = site.events
    fault.prepare(site)
    original = getattr(batch_module.IngestBatch, fault.step)
    armed, struck = threading.Event(), threading.Event()

    def strike_once(self: batch_module.IngestBatch, *args: object) -> object:
        if armed.is_set() and not struck.is_set():
            # What comes next is there before: nothing may be read past what waits.
            events.produce(*numbered(10, 15))
            fault.strike(site)
            struck.set()
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, fault.step, strike_once)
    watcher, outcomes = Watcher(), list[StreamOutcome]()
    ingest = Ingest(events.spark, events.settings(breaker=BREAKER, processing=QUICK), observers=[watcher])
    thread = threading.Thread(target=lambda: outcomes.extend(ingest.run()))
    events.produce(*numbered(0, 5))
    thread.start()
    try:
        until(lambda: complete(watcher, 5))
        armed.set()
        events.produce(*numbered(5, 10))
        until(struck.is_set)
        if fault.holds:
            until(lambda: "dead-letters" in watcher.pauses or complete(watcher, 10))
            assert not complete(watcher, 10), "it is reported as done, without its dead letters"
            assert events.ids() == accepted(10), "its rows landed, and nothing past it"
            assert events.state().published.at(0) == 5
        time.sleep(fault.away)
        fault.heal(site)
        healed = time.monotonic()
        until(lambda: outcomes or complete(watcher, 15))
        sys.stdout.write(f"{fault.name}: recovered in {time.monotonic() - healed:.1f} s\n")
    finally:
        ingest.stop()
        thread.join(90)
    assert not thread.is_alive()
    assert outcomes[0].error is None
    assert events.ids() == accepted(15)
    assert len(events.accounted()) == 15 - fault.taken


def test_the_admin_answers_again_when_the_broker_of_its_client_left_the_cluster(
    own_broker: EmbeddedBroker, follower: EmbeddedBroker
) -> None:
    follower.start()
    until(lambda: len(admin(own_broker.bootstrap).list_topics(timeout=10).brokers) == 2)
    follower.kill()
    kafka = KafkaSettings.model_validate({"bootstrap-servers": own_broker.bootstrap})
    asked = KafkaAdmin(kafka, timeout=2)
    # Until its session has ended, a look at the cluster may name it as the one to ask.
    until(lambda: asked.client().list_topics(timeout=10).controller_id == 2)
    until(lambda: len(admin(own_broker.bootstrap).list_topics(timeout=10).brokers) == 1)
    with pytest.raises(RetriableError, match="did not answer"):
        asked.find("nothing")
    assert asked.find("nothing") is None
