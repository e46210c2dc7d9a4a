"""What becomes of batches while the table, the dead letter queue or both are unavailable."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from structlog.testing import capture_logs
from tests.stream_under_test import BAD, NAME, Reports, StreamUnderTest, good

from tidemark.contract import failpoints as fault_points
from tidemark.contract.errors import Locked, RetriableError
from tidemark.contract.events import BreakerChanged, Event, Paused, StreamObserver
from tidemark.dead_letters.dlq_table.query import dead_letter_target, keep_dead_letters
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import admin, produce
from tidemark.ingest.application import Ingest, StreamOutcome
from tidemark.platform import commit_lock
from tidemark.resilience.breaker_state import State, remembered_in

Make = Callable[..., StreamUnderTest]

TABLE_AWAY = "read-log=down,before-append=down"
EVERYTHING_AWAY = f"{TABLE_AWAY},publish=down"
QUICK = {"max-retries": 1, "batch-size": 1, "flush-interval": 1, "poll-interval": 0.1}
BREAKER = {"failure-threshold": 1, "open-seconds": 0.5, "success-threshold": 2}
UNAVAILABLE = "DEPENDENCY_UNAVAILABLE"


@pytest.fixture(autouse=True)
def no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fault_points.VARIABLE, raising=False)
    fault_points.forget()


@dataclass
class Watcher(StreamObserver):
    """Remembers pauses and changes of breakers."""

    pauses: list[str] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        if isinstance(event, Paused):
            self.pauses.append(event.destination)
        elif isinstance(event, BreakerChanged):
            self.changes.append((event.name, event.new))


@dataclass
class Running:
    """A stream that runs on, with its observers."""

    ingest: Ingest
    watcher: Watcher
    reports: Reports
    outcomes: list[StreamOutcome]

    def stop(self) -> float:
        """Tell it to stop; how long it took to end."""
        began = time.monotonic()
        self.ingest.stop()
        until(lambda: bool(self.outcomes))
        return time.monotonic() - began


def until(there: Callable[[], Any], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


@contextmanager
def running(
    events: StreamUnderTest, processing: Mapping[str, Any] = QUICK, *, open_seconds: float = 0.5
) -> Iterator[Running]:
    """The real application, running on; a breaker that opens at once and probes after `open_seconds`."""
    breaker = {**BREAKER, "open-seconds": open_seconds}
    settings = events.settings(breaker=breaker, processing={**QUICK, **processing})
    watcher, reports = Watcher(), Reports([])
    one = Running(Ingest(events.spark, settings, observers=[watcher, reports]), watcher, reports, [])
    thread = threading.Thread(target=lambda: one.outcomes.extend(one.ingest.run()))
    thread.start()
    try:
        yield one
    finally:
        one.ingest.stop()
        thread.join(90)
    assert not thread.is_alive()


def breaker_states(events: StreamUnderTest) -> dict[str, State]:
    return {found.name: found.state for found in remembered_in(events.settings().state_dir / "breakers")}


@pytest.mark.guarantee(
    "reliability: to the DLQ after that",
    "bad day: on-exhausted: dead-letter",
    "fault: The table is unavailable for longer than the retries → "
    "Batches become replayable dead letters, or wait; each record lands once",
)
def test_batches_become_dead_letters_that_replay_when_the_table_was_unavailable(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream(partitions=2)
    events.produce(good(0), good(1))
    with running(events) as one:
        until(lambda: events.ids() == [0, 1] if one.reports.kept else False)
        marks = events.state().marks
        monkeypatch.setenv(fault_points.VARIABLE, TABLE_AWAY)
        for produced, in_all in (([good(2), good(3), BAD], 5), ([good(4)], 6)):
            events.produce(*produced)
            until(lambda n=in_all: sum(r.read for r in one.reports.kept) == n)  # type: ignore[misc]
        assert events.state().marks == marks
        outage = [r for r in one.reports.kept if r.failures.get(UNAVAILABLE)]
        assert sum(r.failures[UNAVAILABLE] for r in outage) == 3
        assert all(r.accepted == 0 and r.version is None for r in outage)
        assert breaker_states(events)[f"{NAME}/table"] is not State.CLOSED
        monkeypatch.delenv(fault_points.VARIABLE)
        # Nothing is produced: an idle stream tries the table by itself, and records what it jumped.
        until(lambda: (f"{NAME}/table", "CLOSED") in one.watcher.changes)
        jumped = [c for c in events.ledger_commits() if c.jumped]
        assert sum(to - at for c in jumped for at, to in c.jumped.values()) == 4
        assert events.state().marks == events.state().published
        events.produce(good(5))
        # What the outage turned into dead letters lands by itself, and the bad record stays one.
        until(lambda: events.ids() == [0, 1, 2, 3, 4, 5])
    kept = DeadLetterTable(events.table).dead_letters(events.spark)
    assert sorted((r["failure_code"], r["status"]) for r in kept.collect()) == [
        *[(UNAVAILABLE, "resolved")] * 3,
        ("TYPE_MISMATCH", "new"),
    ]
    dead_letters = events.dead_letters()
    assert sorted(x["category"] for x in dead_letters if x["category"] == UNAVAILABLE) == [UNAVAILABLE] * 3
    assert {x["value"] for x in dead_letters} == {good(2), good(3), good(4), BAD}
    assert {x["retriable"] for x in dead_letters if x["category"] == UNAVAILABLE} == {"true"}
    assert len(events.accounted()) == 7
    events.land()
    assert events.ids() == [0, 1, 2, 3, 4, 5]


@pytest.mark.guarantee(
    "bad day: the process ends in an outage",
    "fault: The process ends in an outage of the table → The records are read again and land",
)
def test_dead_lettered_records_land_when_the_process_ends_before_the_table_is_back(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream()
    events.options["processing"] = {"max-retries": 1}
    events.produce(BAD, good(0))
    events.land()
    monkeypatch.setenv(fault_points.VARIABLE, TABLE_AWAY)
    events.produce(good(1), BAD)
    events.land()
    assert [r.failures for r in events.reports] == [{UNAVAILABLE: 1, "TYPE_MISMATCH": 1}]
    monkeypatch.delenv(fault_points.VARIABLE)
    events.produce(good(2))
    events.land()
    assert events.ids() == [0, 1, 2]
    assert sorted((x["offset"], x["category"]) for x in events.dead_letters()) == [
        ("0", "TYPE_MISMATCH"),
        ("2", UNAVAILABLE),
        *[("3", "TYPE_MISMATCH")] * 2,
    ], "read again is what the outage took, and nothing from before it"
    assert len(events.accounted()) == 5


@pytest.mark.guarantee(
    "bad day: the process ends after an outage, before the replay",
    "fault: The process ends after an outage of the table, before its dead letters were replayed → "
    "The next process replays them: the ledger says that it is due",
)
def test_dead_letters_of_an_outage_land_when_a_restart_comes_before_their_replay(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default no DLQ table is kept, and none is there: the next process learns of it from the ledger."""
    events = stream(partitions=2)
    events.produce(good(0))
    with running(events) as one:
        until(lambda: one.reports.kept)
        monkeypatch.setenv(fault_points.VARIABLE, TABLE_AWAY)
        events.produce(good(1), good(2), BAD)
        until(lambda: sum(r.failures.get(UNAVAILABLE, 0) for r in one.reports.kept) == 2)
        # The table comes back, and the offsets are recorded as jumped; but each replay fails.
        monkeypatch.setenv(fault_points.VARIABLE, "letters-start=down")
        with capture_logs() as lines:
            until(lambda: sum(line["event"] == "replay failed" for line in lines) > 1)
        newest = events.state().newest
        assert newest is not None
        assert newest.replay_due > 0
        assert events.state().published == events.state().marks
        assert one.stop() < 30
    assert events.ids() == [0]
    events.land(breaker=BREAKER)
    assert events.ids() == [0], "a run to which it happens too leaves it to the next one"
    monkeypatch.delenv(fault_points.VARIABLE)
    events.land(breaker=BREAKER)
    assert events.ids() == [0, 1, 2]
    assert len(events.accounted()) == 4
    newest = events.state().newest
    assert newest is not None
    assert (newest.replay_due, newest.marks) == (0, newest.published)
    version = events.state().version
    events.land(breaker=BREAKER)
    assert events.state().version == version, "what is replayed stays so"


def test_dead_letters_are_read_from_the_earliest_when_retention_passed_their_reader(
    stream: Make, topic: Callable[..., str], broker: EmbeddedBroker
) -> None:
    """Records of any program: who wrote them is not what this is about."""
    name = topic()
    events = stream(**{"dead-letter": {"topic": name}})
    settings = events.settings()
    target = dead_letter_target(events.spark, settings, NAME, run="reader")

    def kept(*values: bytes) -> list[dict[str, Any]]:
        produce(broker.bootstrap, name, values)
        with capture_logs() as lines:
            keep_dead_letters(events.spark, settings, target)
        return lines

    kept(b"0")
    produce(broker.bootstrap, name, [b"1", b"2"])
    client, place = admin(broker.bootstrap), TopicPartition(name, 0, 2)
    client.delete_records([place])[place].result(30)
    lines = kept(b"3")
    assert [line["records"] for line in lines if "lost to retention" in line["event"]] == [1]
    lines = kept(b"4")
    assert not [line for line in lines if "cannot be used" in line["event"]], "it goes on there from now on"
    dead_letters = DeadLetterTable(target.table).dead_letters(events.spark).select("dlq_offset").collect()
    assert sorted(r["dlq_offset"] for r in dead_letters) == [0, 2, 3, 4]


@pytest.mark.guarantee(
    "bad day: on-exhausted: pause; DLQ down too",
    "fault: The table is unavailable for longer than the retries → "
    "Batches become replayable dead letters, or wait; each record lands once",
)
@pytest.mark.parametrize(("faults", "policy"), [(EVERYTHING_AWAY, "dead-letter"), (TABLE_AWAY, "pause")])
def test_the_batch_is_kept_and_lands_when_no_store_answers_or_the_stream_pauses(
    stream: Make, monkeypatch: pytest.MonkeyPatch, faults: str, policy: str
) -> None:
    events = stream()
    events.produce(good(0))
    events.land()
    monkeypatch.setenv(fault_points.VARIABLE, faults)
    events.produce(good(1), BAD)
    with running(events, {"on-exhausted": policy}) as one:
        until(lambda: len(one.watcher.pauses) > 2)
        assert set(one.watcher.pauses) == {"table"}
        assert events.dead_letters() == []
        monkeypatch.delenv(fault_points.VARIABLE)
        until(lambda: one.reports.kept)
        until(lambda: sum(r.read for r in one.reports.kept) == 2)
        assert sum(r.accepted for r in one.reports.kept) == 1
        # Its rows are in the table: it waits for the DLQ, and ends promptly when it is told to.
        monkeypatch.setenv(fault_points.VARIABLE, "publish=down")
        events.produce(good(2), BAD)
        until(lambda: "dead-letters" in one.watcher.pauses)
        assert one.stop() < 15
        assert [o.error for o in one.outcomes] == [None]
    monkeypatch.delenv(fault_points.VARIABLE)
    assert events.ids() == [0, 1, 2]
    events.land(breaker=BREAKER)
    assert events.ids() == [0, 1, 2]
    assert [x["offset"] for x in events.dead_letters()] == ["2", "4"]


@pytest.mark.parametrize("mode", ["kafka-native", "merge"])
def test_the_batch_waits_and_no_record_is_rejected_while_another_writer_commits(
    stream: Make, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """`tidemark maintain` compacts under the lock for as long as that takes."""
    monkeypatch.setattr(commit_lock, "LONGEST_WAIT_S", 0.2)
    events = stream()
    events.options["idempotency"] = {"mode": mode}
    events.produce(good(0))
    events.land()
    with commit_lock.commit_lock(events.table), running(events, {"on-exhausted": "dead-letter"}) as one:
        events.produce(good(1), BAD)
        until(lambda: len(one.watcher.pauses) > 1)
        assert set(one.watcher.pauses) == {"table"}
        assert one.watcher.changes == []
        assert one.stop() < 15
    with commit_lock.commit_lock(events.table):
        assert isinstance(events.run().error, Locked), "a bounded run ends, and says why"
    assert events.dead_letters() == []
    events.land()
    assert events.ids() == [0, 1]
    assert [x["offset"] for x in events.dead_letters()] == ["2"]


def test_the_stream_ends_at_once_when_it_is_stopped_in_a_pause_of_an_hour(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shorter pause would hide it: the next probe fails, and its retries notice the end too."""
    events = stream()
    events.produce(good(0), BAD)
    monkeypatch.setenv(fault_points.VARIABLE, TABLE_AWAY)
    # The first run pauses with its batch, the second one before it starts: the breaker is still open.
    for pause in ("with a batch", "before the start"):
        with running(events, {"on-exhausted": "pause"}, open_seconds=3600) as one:
            until(lambda: one.watcher.pauses)
            assert one.stop() < 15, pause
            assert [o.error for o in one.outcomes] == [None], pause
            assert one.watcher.pauses == ["table"], pause
    monkeypatch.delenv(fault_points.VARIABLE)
    events.land(breaker=BREAKER)
    assert events.ids() == [0]
    assert len(events.accounted()) == 2


def test_a_bounded_run_fails_and_the_next_one_lands_all_when_no_store_answers(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream()
    events.options["processing"] = {"max-retries": 1}
    events.produce(good(0), BAD)
    monkeypatch.setenv(fault_points.VARIABLE, EVERYTHING_AWAY)
    assert isinstance(events.run().error, RetriableError)
    monkeypatch.delenv(fault_points.VARIABLE)
    events.land()
    assert events.ids() == [0]
    assert len(events.accounted()) == 2
