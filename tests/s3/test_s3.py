"""Tables, checkpoints and dead letters on S3: a real server, with faults before it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession
from tests.s3.s3_server import Answer, FaultyS3, Request, faulty_s3
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.config.destination import TableRef
from tidemark.contract.errors import Fenced, RetriesExhausted
from tidemark.dev.broker import EmbeddedBroker
from tidemark.pipeline.ingest import Ingest, StreamOutcome
from tidemark.platform.open_session import s3_options

pytestmark = pytest.mark.timeout(600)

KEYS = {"access-key-id": "test", "secret-access-key": "test", "region": "us-east-1"}
# As the product has them, but impatient: what is tested is what comes after S3A gave up.
IMPATIENT = {
    "attempts.maximum": "1",
    "retry.limit": "1",
    "retry.interval": "50ms",
    "retry.throttle.limit": "1",
    "retry.throttle.interval": "50ms",
    "connection.timeout": "2s",
    "connection.request.timeout": "2s",
    "connection.establish.timeout": "2s",
}
_buckets = itertools.count(1)


@dataclass
class S3Stream(StreamUnderTest):
    """A stream whose table, dead letters and checkpoint are on S3."""

    bucket: str = ""
    endpoint: str = ""
    config: dict[str, Any] = field(default_factory=dict)

    def document(self, **options: Any) -> Mapping[str, Any]:
        document = dict(super().document(**options))
        place = {"bucket": self.bucket, "path": "lake/events"}
        document["connector"]["topics"]["events"]["destination"] = place
        document["checkpoint-root"] = f"s3a://{self.bucket}/checkpoints"
        document["aws"] = {"s3": {"endpoint": self.endpoint, **KEYS}}
        return {**document, **self.config}

    @property
    def table(self) -> TableRef:
        return TableRef(path=f"s3a://{self.bucket}/lake/events")


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as running:
        yield running


@pytest.fixture
def events(
    s3: FaultyS3, spark: SparkSession, broker: EmbeddedBroker, topic: Callable[..., str], tmp_path: Path
) -> Iterator[S3Stream]:
    s3.heal()
    bucket = f"lake-{next(_buckets)}"
    client(s3).create_bucket(Bucket=bucket)
    events = S3Stream(spark, broker, topic(), tmp_path, bucket=bucket, endpoint=s3.endpoint)
    events.options["processing"] = {"max-retries": 2}
    options = {name.removeprefix("fs.s3a."): v for name, v in s3_options(events.settings()).items()}
    for name, value in {**options, **IMPATIENT}.items():
        # A bucket's own options: the file systems of other buckets live on in this process.
        spark.conf.set(f"fs.s3a.bucket.{bucket}.{name}", value)
    yield events
    s3.heal()


def client(s3: FaultyS3) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=s3.endpoint, **keys)


def check_books(events: S3Stream, count: int) -> None:
    """Records are numbered; each fifth one is bad."""
    assert events.ids() == [i for i in range(count) if i % 5 != 4]
    assert len(events.accounted()) == count


def numbered(start: int, end: int) -> list[bytes]:
    return [BAD if i % 5 == 4 else good(i) for i in range(start, end)]


TRANSIENT = {
    "throttled": (Answer(503, "SlowDown"), 4, False),
    "internal error": (Answer(500, "InternalError"), 1, True),
    "connection reset": (Answer(0), 1, True),
    "timeout": (Answer(0, delay=3), 1, True),
    "commit answered by an error": (Answer(500, "InternalError", after=True), 1, True),
    "commit answered by a reset": (Answer(0, after=True), 1, True),
    "slow": (Answer(delay=0.1), 30, False),
}


def test_every_record_lands_once_when_s3_fails_for_less_than_the_retries(
    s3: FaultyS3, events: S3Stream
) -> None:
    events.produce(*numbered(0, 5))
    events.land()
    count = 5
    for name, (answer, times, only_commits) in TRANSIENT.items():
        s3.fail(answer, times=times, only_commits=only_commits)
        events.produce(*numbered(count, count + 5))
        count += 5
        assert events.run().error is None, name
        assert s3.hit >= 1, name
        s3.heal()
    check_books(events, count)


def test_scenario_1_transient_s3_outage_is_retried_and_acknowledged_only_once_the_rows_are_there(
    s3: FaultyS3, events: S3Stream
) -> None:
    events.produce(*numbered(0, 5))
    events.land()
    acknowledged: list[int] = []

    def outage(request: Request) -> Answer | None:
        if not request.is_commit or len(acknowledged) == 3:
            return None
        acknowledged.append(events.group().read(events.topic, (0,))[0])
        return Answer(500, "InternalError")

    s3.fault = outage
    events.produce(*numbered(5, 10))
    events.land()
    assert acknowledged == [5, 5, 5]
    assert dict(events.group().read(events.topic, (0,))) == {0: 10}
    check_books(events, 10)


def test_every_record_lands_once_when_s3_was_away_for_longer_than_the_retries(
    s3: FaultyS3, events: S3Stream
) -> None:
    events.produce(*numbered(0, 5))
    events.land()
    # The whole store, so that not even the start gets through; then in a batch that has been planned.
    for only_commits in (False, True):
        s3.fail(Answer(503, "ServiceUnavailable"), only_commits=only_commits)
        events.produce(*numbered(5, 10) if only_commits else [])
        assert isinstance(events.run().error, RetriesExhausted)
        assert len(events.dead_letters()) == 1, "with its checkpoint away too, nothing may be dead-lettered"
        s3.heal()
    events.land()
    check_books(events, 10)


def test_the_stream_stops_and_names_the_reason_when_s3_refuses_it(s3: FaultyS3, events: S3Stream) -> None:
    events.produce(*numbered(0, 5))
    events.land()
    events.produce(*numbered(5, 10))
    for status, code in ((403, "AccessDenied"), (404, "NoSuchBucket")):
        s3.fail(Answer(status, code), only_commits=True)
        assert code in str(events.run().error)
        # One request, and one of S3A's own: nobody retries what is refused, nor dead-letters the batch.
        assert s3.hit <= 2
        s3.heal()
        assert len(events.dead_letters()) == 1
    events.land()
    check_books(events, 10)


def test_the_writer_is_fenced_when_another_process_commits_the_same_batch_first_on_s3(
    s3: FaultyS3, events: S3Stream
) -> None:
    events.produce(*numbered(0, 5))
    events.land()
    version = events.state().version + 1
    key = f"lake/events/_delta_log/{version:020d}.json"

    def let_the_other_go_first() -> None:
        """It read the same batch from the same marks: its commit is ours but for the run in its token."""
        lines = [line.strip() for line in s3.committing.splitlines()]
        body = b"\n".join(line for line in lines if line.startswith(b"{") and line.endswith(b"}")) + b"\n"
        assert ingest.run_id.encode() in body
        theirs = body.replace(ingest.run_id.encode(), b"another-process")
        client(s3).put_object(Bucket=events.bucket, Key=key, Body=theirs)

    events.produce(*numbered(5, 10))
    ingest = events.ingest()
    # Ours looked, saw no such version, and is about to write it.
    s3.before_commit = let_the_other_go_first
    (outcome,) = ingest.run()
    assert isinstance(outcome.error, Fenced)
    assert "another-process" in outcome.error.message
    assert events.own_commits()[-1].run == "another-process"
    # What the other one crashed before: its dead letters. The next start publishes them.
    events.land()
    check_books(events, 10)


def test_one_of_two_processes_stops_fenced_and_each_record_lands_once_when_both_write_one_table_on_s3(
    events: S3Stream,
) -> None:
    """A second deployment by mistake: this process, and another one with a checkpoint of its own."""
    events.options["processing"] = {"batch-size": 1, "flush-interval": 1, "poll-interval": 0.1}
    elsewhere = events.folder / "elsewhere"
    elsewhere.mkdir()
    config = elsewhere / "tidemark.yml"
    own = {"checkpoint-root": str(elsewhere / "checkpoints"), "state-dir": str(elsewhere / "state")}
    config.write_text(json.dumps({**events.document(), **own}))
    events.produce(*numbered(0, 5))
    other = subprocess.Popen(
        [sys.executable, "-m", "tidemark.cli.app", "ingest", "--config", str(config)],
        env={**os.environ, "TIDEMARK_DRIVER_MEMORY": "1g"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    ingest, outcomes = Ingest(events.spark, events.settings()), list[StreamOutcome]()
    thread = threading.Thread(target=lambda: outcomes.extend(ingest.run()))
    thread.start()
    count, deadline = 5, time.monotonic() + 240
    try:
        while other.poll() is None and not outcomes and time.monotonic() < deadline:
            events.produce(*numbered(count, count + 5))
            count += 5
            time.sleep(0.5)
        first = "other" if other.poll() is not None else "this"
    finally:
        ingest.stop()
        other.terminate()
        said, _ = other.communicate(timeout=120)
        thread.join(120)
    assert not thread.is_alive()
    (outcome,) = outcomes
    if first == "other":
        assert outcome.error is None, "the one that was not fenced went on"
        assert other.returncode == 1
        assert "another writer committed" in said or "DELTA_CONCURRENT_TRANSACTION" in said, said[-3000:]
    else:
        assert other.returncode == 0, said[-3000:]
        assert isinstance(outcome.error, Fenced) or "DELTA_CONCURRENT_TRANSACTION" in str(outcome.error)
    events.land()
    check_books(events, count)
