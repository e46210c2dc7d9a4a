"""Tables, checkpoints and dead letters on S3: a real server, with faults before it.

Most of it happens to one stream, in turn: each test meets what those before it left behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from pyspark.sql import SparkSession
from tests.s3.s3_server import Answer, FaultyS3, Request, faulty_s3
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.config.destination import TableRef
from tidemark.contract.errors import Fenced, RetriesExhausted
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic
from tidemark.ingest.application import Ingest, StreamOutcome
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


@dataclass
class S3Stream(StreamUnderTest):
    """A stream whose table, dead letters and checkpoint are on S3, of numbered records: each fifth is bad."""

    bucket: str = ""
    endpoint: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    produced: int = 0

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

    def produce_five(self) -> None:
        numbers = range(self.produced, self.produced + 5)
        self.produce(*[BAD if i % 5 == 4 else good(i) for i in numbers])
        self.produced += 5

    def check_books(self) -> None:
        assert self.ids() == [i for i in range(self.produced) if i % 5 != 4]
        assert len(self.accounted()) == self.produced


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as running:
        yield running


@pytest.fixture(scope="module")
def new_events(
    s3: FaultyS3, spark: SparkSession, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], S3Stream]:
    """Makes a stream over a new topic, in a bucket of its own."""

    def make(bucket: str) -> S3Stream:
        client(s3).create_bucket(Bucket=bucket)
        create_topic(broker.bootstrap, bucket, 1)
        folder = tmp_path_factory.mktemp(bucket)
        events = S3Stream(spark, broker, bucket, folder, bucket=bucket, endpoint=s3.endpoint)
        events.options["processing"] = {"max-retries": 2}
        options = {name.removeprefix("fs.s3a."): v for name, v in s3_options(events.settings()).items()}
        for name, value in {**options, **IMPATIENT}.items():
            # A bucket's own options: the file systems of other buckets live on in this process.
            spark.conf.set(f"fs.s3a.bucket.{bucket}.{name}", value)
        return events

    return make


@pytest.fixture(scope="module")
def _events(new_events: Callable[[str], S3Stream]) -> S3Stream:
    events = new_events("s3-events")
    events.produce_five()
    events.land()
    return events


@pytest.fixture
def events(s3: FaultyS3, _events: S3Stream) -> Iterator[S3Stream]:
    """The file's stream, with what it has landed so far."""
    yield _events
    s3.heal()


def client(s3: FaultyS3) -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=s3.endpoint, **keys)


AT_ONCE = [Answer(503, "SlowDown")] * 4 + [Answer(delay=0.1)] * 30
"""What the first requests of a start are answered."""
AT_COMMIT = {
    "internal error": Answer(500, "InternalError"),
    "connection reset": Answer(0),
    "timeout": Answer(0, delay=3),
    "commit answered by an error": Answer(500, "InternalError", after=True),
    "commit answered by a reset": Answer(0, after=True),
}
"""What the first try of a batch's commit is answered."""


@pytest.mark.guarantee(
    "fault tolerance: storage fails",
    "bad day: storage out for less than the retries",
    "bad day: commit answered with an error after it was written",
    "fault: S3 throttles, fails, times out or resets for less than the retries, also after a commit "
    "was written → "
    "The batch is retried and lands once; offsets are acknowledged only then",
)
def test_every_record_lands_once_when_s3_fails_for_less_than_the_retries(
    s3: FaultyS3, events: S3Stream
) -> None:
    at_once, given, lock = iter(AT_ONCE), dict[str, str](), threading.Lock()

    def decide(request: Request) -> Answer | None:
        with lock:
            if (answer := next(at_once, None)) is not None:
                return answer
            if not request.is_commit or request.path in given or len(given) == len(AT_COMMIT):
                return None
            given[request.path] = list(AT_COMMIT)[len(given)]
            return AT_COMMIT[given[request.path]]

    s3.fault = decide
    for _ in AT_COMMIT:
        events.produce_five()
    outcome = events.run(processing={"max-retries": 2, "max-batch-size": 5, "batch-size": 1})
    assert outcome.error is None, given
    assert list(given.values()) == list(AT_COMMIT)
    assert [(r.accepted, r.rejected) for r in events.reports] == [(4, 1)] * len(AT_COMMIT)
    events.check_books()


@pytest.mark.guarantee(
    "reliability: acknowledged only after success",
    "reliability: scenario 1",
    "fault: S3 throttles, fails, times out or resets for less than the retries, also after a commit "
    "was written → "
    "The batch is retried and lands once; offsets are acknowledged only then",
)
def test_scenario_1_transient_s3_outage_is_acknowledged_only_when_the_rows_are_there(
    s3: FaultyS3, events: S3Stream
) -> None:
    acknowledged: list[int] = []
    before = events.produced

    def outage(request: Request) -> Answer | None:
        if not request.is_commit or len(acknowledged) == 3:
            return None
        acknowledged.append(events.group().read(events.topic, (0,))[0])
        return Answer(500, "InternalError")

    s3.fault = outage
    events.produce_five()
    events.land()
    assert acknowledged == [before] * 3
    assert dict(events.group().read(events.topic, (0,))) == {0: events.produced}
    events.check_books()


@pytest.mark.guarantee(
    "bad day: storage out for longer",
    "fault: S3 is unavailable for longer, or refuses (403, no such bucket) → "
    "The run ends and names the reason; the next one lands all once",
)
def test_every_record_lands_once_when_s3_was_unavailable_for_longer_than_the_retries(
    s3: FaultyS3, events: S3Stream
) -> None:
    dead_letters = len(events.dead_letters())
    # The whole store, so that not even the start gets through; then in a batch that has been planned.
    for only_commits in (False, True):
        s3.fail(Answer(503, "ServiceUnavailable"), only_commits=only_commits)
        if only_commits:
            events.produce_five()
        assert isinstance(events.run().error, RetriesExhausted)
        assert len(events.dead_letters()) == dead_letters, (
            "with its checkpoint away too, nothing may be dead-lettered"
        )
        s3.heal()
    events.land()
    events.check_books()


@pytest.mark.guarantee(
    "bad day: 403, no such bucket",
    "fault: S3 is unavailable for longer, or refuses (403, no such bucket) → "
    "The run ends and names the reason; the next one lands all once",
)
def test_the_stream_stops_and_names_the_reason_when_s3_refuses_it(s3: FaultyS3, events: S3Stream) -> None:
    dead_letters = len(events.dead_letters())
    events.produce_five()
    for status, code in ((403, "AccessDenied"), (404, "NoSuchBucket")):
        s3.fail(Answer(status, code), only_commits=True)
        assert code in str(events.run().error)
        # One request, and one of S3A's own: nobody retries what is refused, nor dead-letters the batch.
        assert s3.hit <= 2
        s3.heal()
        assert len(events.dead_letters()) == dead_letters
    events.land()
    events.check_books()


@pytest.mark.guarantee(
    "fault: A second driver commits the same version on S3 → "
    "The later one is refused, and stops fenced; no commit is overwritten"
)
def test_the_writer_is_fenced_when_another_process_commits_its_batch_first_on_s3(
    s3: FaultyS3, events: S3Stream
) -> None:
    version = events.state().version + 1
    key = f"lake/events/_delta_log/{version:020d}.json"

    def let_the_other_go_first() -> None:
        """It read the same batch from the same marks: its commit is ours but for the run in its token."""
        lines = [line.strip() for line in s3.committing.splitlines()]
        body = b"\n".join(line for line in lines if line.startswith(b"{") and line.endswith(b"}")) + b"\n"
        assert ingest.run_id.encode() in body
        theirs = body.replace(ingest.run_id.encode(), b"another-process")
        client(s3).put_object(Bucket=events.bucket, Key=key, Body=theirs)

    events.produce_five()
    ingest = events.ingest()
    # Ours looked, saw no such version, and is about to write it.
    s3.before_commit = let_the_other_go_first
    (outcome,) = ingest.run()
    assert isinstance(outcome.error, Fenced)
    assert "another-process" in outcome.error.message
    assert events.ledger_commits()[-1].run == "another-process"
    # What the other one crashed before: its dead letters. The next start publishes them.
    events.land()
    events.check_books()


@pytest.mark.guarantee(
    "bad day: two processes on s3a",
    "fault: A second writer runs, on one machine or on S3; a frozen one wakes up after another took over → "
    "One stops, fenced; nothing doubles",
)
def test_one_of_two_processes_is_fenced_and_rows_land_once_when_both_write_on_s3(
    new_events: Callable[[str], S3Stream],
) -> None:
    """A second deployment by mistake: this process, and another one with a checkpoint of its own."""
    events = new_events("s3-of-two")
    events.options["processing"] = {"batch-size": 1, "flush-interval": 1, "poll-interval": 0.1}
    elsewhere = events.folder / "elsewhere"
    elsewhere.mkdir()
    config = elsewhere / "tidemark.yml"
    own = {"checkpoint-root": str(elsewhere / "checkpoints"), "state-dir": str(elsewhere / "state")}
    config.write_text(json.dumps({**events.document(), **own}))
    events.produce_five()
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
    deadline = time.monotonic() + 240
    try:
        while other.poll() is None and not outcomes and time.monotonic() < deadline:
            events.produce_five()
            time.sleep(0.5)
        first = "other" if other.poll() is not None else "this"
    finally:
        ingest.stop()
        other.terminate()
        summary_of_error, _ = other.communicate(timeout=120)
        thread.join(120)
    assert not thread.is_alive()
    (outcome,) = outcomes
    if first == "other":
        assert outcome.error is None, "the one that was not fenced went on"
        assert other.returncode == 1
        assert (
            "another writer committed" in summary_of_error
            or "DELTA_CONCURRENT_TRANSACTION" in summary_of_error
        ), summary_of_error[-3000:]
    else:
        assert other.returncode == 0, summary_of_error[-3000:]
        assert isinstance(outcome.error, Fenced) or "DELTA_CONCURRENT_TRANSACTION" in str(outcome.error)
    events.land()
    events.check_books()
