"""An idle stream keeps its marks alive, and several streams keep out of each other's way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.stream_under_test import NAME, StreamUnderTest, good

from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import NonRetriableError
from tidemark.contract.events import Event, StreamObserver
from tidemark.contract.ledger_commit import CommitKind
from tidemark.ingest.application import Ingest
from tidemark.ingest.batch import handler as batch_module
from tidemark.ingest.heartbeat import beat_if_due
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.targets import targets_of

Make = Callable[..., StreamUnderTest]


def _beat(events: StreamUnderTest, run: str, *, days: float) -> bool:
    settings = events.settings()
    (target,) = targets_of(events.spark, settings, NAME, run=run)
    topic = KafkaAdmin(settings.kafka).describe(events.topic)
    return beat_if_due(events.spark, target, topic, now=datetime.now(UTC) + timedelta(days=days))


@pytest.mark.guarantee(
    "fault: The table's log forgets old commits while nothing comes → The marks are committed again each day"
)
def test_the_marks_are_committed_again_when_the_newest_ledger_commit_is_a_day_old(stream: Make) -> None:
    events = stream()
    events.produce(good(0), good(1))
    events.land()
    before = events.state()
    assert not _beat(events, "later", days=0.5)
    assert _beat(events, "later", days=1.5)
    after = events.state()
    assert after.newest is not None
    assert before.newest is not None
    assert (after.newest.kind, after.marks, after.seq) == (CommitKind.HEARTBEAT, before.marks, before.seq + 1)
    assert after.newest.checkpoint == before.newest.checkpoint
    events.produce(good(2))
    events.land()
    assert events.ids() == [0, 1, 2]


def test_the_batch_lands_all_the_same_when_a_heartbeat_of_its_own_run_comes_between(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream()
    events.produce(good(0))
    original = batch_module.IngestBatch._append
    beaten: list[bool] = []

    def append_after_heartbeat(self: batch_module.IngestBatch, *args: object) -> object:
        if not beaten:
            beaten.append(_beat(events, self.plan.run, days=1.5))
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, "_append", append_after_heartbeat)
    events.land()
    assert beaten == [True]
    assert events.ids() == [0]
    assert [c.kind for c in events.ledger_commits()] == [
        CommitKind.OPEN,
        CommitKind.HEARTBEAT,
        CommitKind.BATCH,
    ]


@pytest.mark.guarantee("fault: One stream of an application fails; what watches it fails → The others go on")
def test_the_others_land_when_one_stream_of_the_application_fails(stream: Make) -> None:
    events = stream()
    events.produce(good(0))
    settings = events.settings()
    lost = settings.streams[NAME].model_copy(update={"kafka_topic": "nobody-made-this"})
    destination = lost.destination
    assert destination is not None
    lost = lost.model_copy(update={"destination": destination.model_copy(update={"path": "lake/lost"})})
    both = replace(settings, streams={"lost": lost, NAME: settings.streams[NAME]})
    outcomes = Ingest(events.spark, both, available_now=True, sleep=lambda _: False).run()
    assert [(o.name, type(o.error)) for o in outcomes] == [(NAME, type(None)), ("lost", NonRetriableError)]
    assert events.ids() == [0]


def test_the_running_stream_ends_cleanly_when_it_is_stopped(stream: Make) -> None:
    events = stream()
    events.produce(good(0))
    running = events.ingest(processing={"batch-size": 1, "flush-interval": 1})
    running.available_now = False
    landed = threading.Event()

    class Landed(StreamObserver):
        def emit(self, event: Event) -> None:
            if isinstance(event, BatchReport):
                landed.set()
                raise ValueError("an observer that fails stops nothing")

    running.observers = [Landed()]
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.extend(running.run()))
    thread.start()
    assert landed.wait(90)
    running.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert [o.error for o in outcomes] == [None]  # type: ignore[attr-defined]
    events.produce(good(1))
    events.land()
    assert events.ids() == [0, 1]
