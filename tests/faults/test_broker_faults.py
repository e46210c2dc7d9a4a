"""One table of faults of the broker: produce, break in mid-batch, heal, and every record is there once.

The broker is this file's own: it is killed and stopped in its tracks.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.stream_under_test import BAD, Reports, StreamUnderTest, good

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic
from tidemark.pipeline import batch as batch_module
from tidemark.pipeline.ingest import Ingest, StreamOutcome

pytestmark = pytest.mark.timeout(300)

QUICK = {"max-retries": 1, "batch-size": 1, "flush-interval": 1, "poll-interval": 0.1}
BREAKER = {"failure-threshold": 1, "open-seconds": 1, "success-threshold": 1}


@dataclass(frozen=True)
class BrokerFault:
    """`strike` is called once, when a batch is at `step`; `heal` after `away` seconds, from elsewhere."""

    name: str
    step: str
    strike: Callable[[StreamUnderTest], None]
    heal: Callable[[StreamUnderTest], object]
    away: float = 2.0


FAULTS = [
    BrokerFault("killed before the append", "_append", lambda e: e.broker.kill(), lambda e: e.broker.start()),
    BrokerFault(
        "killed before the dead letters", "_publish", lambda e: e.broker.kill(), lambda e: e.broker.start()
    ),
    BrokerFault("slow", "_append", lambda e: e.broker.pause(), lambda e: e.broker.resume(), away=5),
]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def events(spark: SparkSession, own_broker: EmbeddedBroker, tmp_path: Path) -> StreamUnderTest:
    own_broker.start()
    events = StreamUnderTest(spark, own_broker, f"t{time.monotonic_ns()}", tmp_path)
    events.options["dead-letter"] = {"publish-timeout": 3}
    create_topic(own_broker.bootstrap, events.topic, 1)
    return events


def numbered(start: int, end: int) -> list[bytes]:
    """Each fifth one is bad."""
    return [BAD if i % 5 == 4 else good(i) for i in range(start, end)]


def until(there: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_every_record_is_accounted_for_and_none_is_there_twice_when_the_broker_was(
    events: StreamUnderTest, monkeypatch: pytest.MonkeyPatch, fault: BrokerFault
) -> None:
    events.produce(*numbered(0, 5))
    events.land()
    original = getattr(batch_module.IngestBatch, fault.step)
    struck = threading.Event()

    def strike_first(self: batch_module.IngestBatch, *args: object) -> object:
        if not struck.is_set():
            fault.strike(events)
            struck.set()
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, fault.step, strike_first)
    events.produce(*numbered(5, 10))
    reports, outcomes = Reports([]), list[StreamOutcome]()
    ingest = Ingest(events.spark, events.settings(breaker=BREAKER, processing=QUICK), observers=[reports])
    thread = threading.Thread(target=lambda: outcomes.extend(ingest.run()))
    thread.start()
    try:
        until(struck.is_set)
        time.sleep(fault.away)
        fault.heal(events)
        healed = time.monotonic()
        until(lambda: outcomes or sum(r.read for r in reports.kept) >= 5)
        sys.stdout.write(f"{fault.name}: recovered in {time.monotonic() - healed:.1f} s\n")
    finally:
        ingest.stop()
        thread.join(90)
    assert not thread.is_alive()
    assert outcomes[0].error is None
    events.produce(*numbered(10, 15))
    events.land()
    assert events.ids() == [i for i in range(15) if i % 5 != 4]
    assert len(events.accounted()) == 15
