"""The four failure scenarios of the guarantees, by name; the first is in `tests/s3`.

Spark has no group membership: for the pipeline, a rebalance is a writer that is lost, another one that takes
over, and partitions that are added. The listener's own rebalance is in `tests/listener`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from confluent_kafka.cimpl import NewPartitions
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.dev.producers import SampleRecord, admin

Make = Callable[..., StreamUnderTest]
pytestmark = pytest.mark.timeout(600)


def started(events: StreamUnderTest, *options: str, faults: str = "") -> subprocess.Popen[str]:
    config = events.folder / "tidemark.yml"
    config.write_text(json.dumps(events.document(processing={"batch-size": 1, "flush-interval": 1})))
    return subprocess.Popen(
        [sys.executable, "-m", "tidemark.cli.app", "ingest", "--config", str(config), *options],
        env={
            **os.environ,
            "TIDEMARK_FAULTS": faults,
            "TIDEMARK_DRIVER_MEMORY": "1g",
            # A process that runs for seconds spends more on the second compiler than it gets back.
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.guarantee(
    "reliability: scenario 2",
    "fault: A record is malformed, or all of a batch are → It is a dead letter at once; the stream goes on",
)
def test_scenario_2_invalid_message_schema_is_quarantined_and_the_pipeline_continues(stream: Make) -> None:
    events = stream()
    events.produce(good(0), BAD, good(2))
    events.land()
    (report,) = events.reports
    assert (report.accepted, report.rejected) == (2, 1)
    (dead_letter,) = events.dead_letters()
    assert dead_letter["value"] == BAD
    assert dead_letter["retriable"] == "false"
    # Acknowledged at once: the group is past the bad record.
    assert dict(events.group().read(events.topic, (0,))) == {0: 3}
    events.produce(good(3))
    events.land()
    assert events.ids() == [0, 2, 3]
    assert len(events.dead_letters()) == 1


@pytest.mark.guarantee(
    "reliability: scenario 3",
    "fault: A writer is lost and one without its checkpoint takes over → It goes on at the marks",
)
def test_scenario_3_consumer_rebalance_keeps_exactly_once_when_another_takes_over(
    stream: Make,
) -> None:
    events = stream(partitions=2)
    events.produce(*[SampleRecord(good(i), partition=i % 2) for i in range(20)])
    lost = started(events, "--available-now", faults="after-append=kill")
    lost.communicate(timeout=240)
    assert lost.returncode == -signal.SIGKILL
    client = admin(events.broker.bootstrap)
    client.create_partitions([NewPartitions(events.topic, 3)])[events.topic].result(30)
    events.produce(*[SampleRecord(good(i), partition=i % 3) for i in range(20, 30)])
    # The one that takes over is elsewhere: it has no checkpoint.
    (events.folder / "checkpoints").rename(events.folder / "checkpoints-of-the-lost-one")
    events.land()
    assert events.ids() == list(range(30))
    assert len(events.accounted()) == 30


@pytest.mark.guarantee(
    "reliability: scenario 4",
    "bad day: SIGTERM",
    "fault: The stream is stopped by SIGTERM and started again → "
    "It ends within a bound, with exit code 0; nothing is lost or doubled",
)
def test_scenario_4_application_restart_loses_nothing_and_doubles_nothing(stream: Make) -> None:
    """Also: SIGTERM ends a running stream within a bound, with exit code 0."""
    events = stream()
    events.produce(*[good(i) for i in range(10)])
    first = started(events)
    try:
        deadline = time.monotonic() + 200
        while not (events.folder / "lake/events/_delta_log/00000000000000000002.json").exists():
            assert first.poll() is None, first.communicate()[0][-3000:]
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.2)
        events.produce(*[good(i) for i in range(10, 20)], BAD)
        began = time.monotonic()
        first.send_signal(signal.SIGTERM)
        out, _ = first.communicate(timeout=90)
    finally:
        first.kill()
    assert time.monotonic() - began < 60
    assert first.returncode == 0, out[-3000:]
    events.produce(*[good(i) for i in range(20, 25)])
    events.land()
    assert events.ids() == list(range(25))
    assert len(events.accounted()) == 26
