"""The batch handler survives the way to another process: Spark Connect runs it on the server's side."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import pytest
from pyspark import cloudpickle

from tidemark.config.destination import TableRef
from tidemark.config.reading.load import parse_settings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import (
    BatchFailed,
    BreakerChanged,
    DestinationTried,
    Event,
    Paused,
    Retrying,
    StreamEnded,
    StreamObserver,
)
from tidemark.contract.failures import Scope
from tidemark.contract.marks import Marks
from tidemark.dead_letters.topic import DeadLetterTopic
from tidemark.ingest.availability import Availability
from tidemark.ingest.batch.event_relay import EventRelay, relaying
from tidemark.ingest.batch.handler import IngestBatch
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.observers import Observers
from tidemark.platform.files import LocalFiles
from tidemark.resilience.breakers import Breakers
from tidemark.resilience.classification import Classifier
from tidemark.resilience.retry import retrier_for
from tidemark.sink.ledger import LedgerState
from tidemark.source.checkpoint import Checkpoint
from tidemark.source.groups import GroupOffsets
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.transform import SchemaRegistry, decode_plan

IN_A_FRESH_PROCESS = """
import pickle, sys
batch = pickle.load(open(sys.argv[1], "rb"))
assert batch.plan.retry.call(lambda: 7) == 7
assert batch.plan.retry.sleep(0.0) is False
assert batch.plan.availability.attempt("table", lambda: 8) == 8
assert batch.plan.registry.schema(1) == {"type": "string"}
print(batch.plan.topic.id, dict(batch.ledger.state.marks), batch.failure, batch.observers)
"""


def handler(folder: Path, observer: StreamObserver | None = None) -> IngestBatch:
    """A handler as `Ingest` makes it, holding everything that belongs to this process alone."""
    text = {
        "kafka": {"bootstrap-servers": "127.0.0.1:1", "consumer": {"group-id": "g"}},
        "connector": {
            "topics": {
                "s": {
                    "kafka-topic": "t",
                    "schema": {"ddl": "id INT"},
                    "avro": {"framing": "confluent", "registry": "http://127.0.0.1:1"},
                    "destination": {"bucket": str(folder), "path": "s"},
                }
            }
        },
    }
    observers = observer or Observers([Noted()])
    settings = parse_settings(json.dumps(text), root=folder)
    stream = settings.stream("s")
    admin = KafkaAdmin(settings.kafka)
    registry = SchemaRegistry.of(stream.avro)
    assert registry is not None
    registry._known[1] = {"type": "string"}
    retry = retrier_for(
        stream.processing, Classifier(), sleep=threading.Event().wait, on_retry=lambda _: None
    )
    breakers = Breakers.of(settings, listeners=[lambda _: threading.Lock()])
    plan = BatchPlan(
        stream="s",
        run="run",
        topic=Topic("t", "topic-id", (0,)),
        table=TableRef(path=str(folder / "s")),
        checkpoint_id="c",
        checkpoint=Checkpoint(LocalFiles(), str(folder / "c"), "t"),
        start=Marks(),
        admin=admin,
        processing=stream.processing,
        dead_letters=DeadLetterTopic("t-dlq", 1, "s", TableRef(path="/lake/t"), "g", 1_000_000, {}),
        group=GroupOffsets(admin, "g"),
        availability=Availability("s", breakers, retry, observers=observers),
        decode=decode_plan(stream, base_dir=folder, spark=None),
        registry=registry,
        idempotency=stream.idempotency,
    )
    return IngestBatch(
        plan,
        HeldLedger(plan, LedgerState(3, marks=Marks({0: 5}))),
        observers,
        failure=OSError(threading.Lock()),
    )


def test_the_batch_handler_arrives_whole_when_it_is_shipped_to_another_process(tmp_path: Path) -> None:
    shipped = tmp_path / "handler.pickle"
    shipped.write_bytes(cloudpickle.dumps(handler(tmp_path)))
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS, str(shipped)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["topic-id", "{0:", "5}", "None", "Observers(each=())"]


ELSEWHERE = """
import pickle, sys
from tidemark.contract.failures import Scope
from tidemark.contract.errors import RetriableError
from tidemark.contract.events import BatchFailed, Paused
batch = pickle.load(open(sys.argv[1], "rb"))
report = pickle.load(open(sys.argv[2], "rb"))
batch.observers.emit(report)
batch.observers.emit(BatchFailed("s", 4, Scope.DEPENDENCY, "storage", "away"))
tries = iter((RetriableError("away"), None))
def once():
    failure = next(tries)
    if failure:
        raise failure
batch.plan.availability.attempt("table", lambda: batch.plan.retry.call(once, step="append"))
def away():
    raise RetriableError("away")
for _ in range(5):
    try:
        batch.plan.availability.attempt("table", away)
    except RetriableError:
        pass
batch.plan.availability.observers.emit(Paused("s", "table", 60.0, "away"))
"""


class Noted(StreamObserver):
    """Keeps the events. Does not pickle, as observers of a process need not."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.lock = threading.Lock()

    def emit(self, event: Event) -> None:
        self.events.append(event)


def test_events_of_a_batch_in_another_process_reach_the_observers_of_this_one(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint" / "events"
    folder.mkdir(parents=True)
    (folder / "0-of-a-former-run.json").write_text("{}")
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    noted = Noted()
    report = BatchReport(
        *("s", 3, 9, 4, 2, 2, 1, 5, 7, Marks({0: 5, 1: 2})),
        failures={"TYPE_MISMATCH": 2},
        newest=datetime(2024, 7, 1, 12, 0, 0, 250_000),
        ends=Marks({0: 8, 1: 2}),
        copies=1,
    )
    shipped, reported = tmp_path / "handler.pickle", tmp_path / "report.pickle"
    reported.write_bytes(pickle.dumps(report))
    with relaying(connected, f"file:{folder.parent}", noted) as observer:
        shipped.write_bytes(cloudpickle.dumps(handler(tmp_path, observer)))
        ran = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, str(shipped), str(reported)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        (folder / "9-cut-off.json").write_text('{"event": "BatchRe')
        (folder / "9-unknown.json").write_text('{"event": "exec", "fields": {}}')
    (retry,) = [event for event in noted.events if isinstance(event, Retrying)]
    failed = DestinationTried("s", "table", "RetriableError: away")
    (change,) = [event for event in noted.events if isinstance(event, BreakerChanged)]
    assert (retry.stream, retry.step, retry.attempt) == ("s", "append", 1)
    assert (change.name, change.old, change.new) == ("s/table", "CLOSED", "OPEN")
    assert noted.events == [
        report,
        BatchFailed("s", 4, Scope.DEPENDENCY, "storage", "away"),
        retry,
        failed,
        DestinationTried("s", "table", None),
        *[failed] * 4,
        change,
        failed,
        Paused("s", "table", 60.0, "away"),
    ]
    assert list(folder.iterdir()) == [], "nothing is reported twice, and nothing stays behind"
    with relaying(object(), str(tmp_path), noted) as observer:
        assert observer is noted, "at home the observers hear it themselves"


def test_a_batch_goes_on_when_its_events_cannot_be_sent(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file where the folder should be")
    EventRelay(str(tmp_path / "events")).emit(Paused("s", "table", 1.0, "away"))


def test_an_observer_that_raises_neither_stops_the_others_nor_the_caller() -> None:
    class Broken(StreamObserver):
        def emit(self, event: Event) -> None:
            raise RuntimeError("broken")

    noted = Noted()
    Observers([Broken(), noted, Broken()]).emit(StreamEnded("s", None))
    assert noted.events == [StreamEnded("s", None)]


@pytest.mark.guarantee("case: ops-04")
def test_the_lag_of_a_report_is_what_lies_between_marks_and_ends() -> None:
    # Partition 3 was cut short: nothing waits there.
    marks, ends = Marks({0: 5, 1: 9, 3: 500}), Marks({0: 8, 1: 9, 2: 4, 3: 3})
    report = BatchReport("s", 1, 0, 0, 0, 0, 0, 0, None, marks, ends=ends)
    assert report.lag == 7
    assert pickle.loads(pickle.dumps(report)) == report
