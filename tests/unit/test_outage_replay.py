"""When the dead letters of an outage are replayed, how often that is tried, how long an end waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.ingest import outage_replay
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.new_offsets import Bounds
from tidemark.ingest.outage_replay import OutageReplay
from tidemark.resilience.breaker import Breaker
from tidemark.sink.ledger import LedgerState

NEWEST = LedgerCommit(CommitKind.BATCH, "events", "id", "run/1/1", seq=4, base=3, marks=Marks({0: 10}))


def held(*, due: int) -> HeldLedger:
    """A ledger at seq 4 and offset 10, whose breaker is closed."""
    newest = replace(NEWEST, replay_due=due)
    state = LedgerState(7, newest, 7, marks=newest.marks, published=newest.marks)
    breaker = Breaker("events/table")
    availability = SimpleNamespace(breaker=lambda _: breaker)
    plan: Any = SimpleNamespace(
        stream="events",
        run="run",
        topic=SimpleNamespace(id="id"),
        checkpoint_id="c",
        availability=availability,
        admin=None,
    )
    return HeldLedger(plan, state, read_at=time.monotonic() + 3600)


def next_of(ledger: HeldLedger, start: int, end: int) -> LedgerCommit:
    return ledger.next_commit(9, 1, Bounds(Marks({0: start}), Marks({0: end})))


def test_a_replay_is_due_from_the_commit_that_jumped_until_it_is_replayed() -> None:
    ledger = held(due=0)
    assert next_of(ledger, 10, 12).replay_due == 0
    jumping = next_of(ledger, 15, 20)
    assert (jumping.jumped, jumping.replay_due) == ({0: (10, 15)}, 5)
    ledger = held(due=3)
    assert next_of(ledger, 10, 12).replay_due == 3, "taken over by each commit"
    ledger.replayed = 3
    assert next_of(ledger, 10, 12).replay_due == 0
    assert next_of(ledger, 15, 20).replay_due == 5, "a jump during the replay is still to come"


def test_a_replay_that_is_due_survives_the_log_of_a_commit() -> None:
    assert LedgerCommit.from_json(replace(NEWEST, replay_due=4).to_json()) == replace(NEWEST, replay_due=4)
    assert "replay_due" not in NEWEST.to_json()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def replaying(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[Callable[[threading.Event], int]], *, due: int = 4
) -> tuple[OutageReplay, Clock, list[int]]:
    """One whose attempts do `outcomes`, which return how many dead letters wait; and the seqs it recorded."""
    target: Any = SimpleNamespace(
        name="events",
        table=None,
        schema=None,
        decode=object(),
        stream=SimpleNamespace(idempotency=SimpleNamespace(merge_keys=())),
    )
    interrupted: list[str] = []
    spark: Any = SimpleNamespace(addTag=lambda _: None, interruptTag=interrupted.append)
    settings: Any = None
    clock, recorded = Clock(), list[int]()
    one = OutageReplay(spark, settings, target, held(due=due), clock)
    one.interrupted = interrupted  # type: ignore[attr-defined]
    monkeypatch.setattr(outage_replay, "keep_dead_letters", lambda *_, **__: None)
    monkeypatch.setattr(outage_replay, "over_connect", lambda _: False)

    def of(progress: Callable[[str], None]) -> SimpleNamespace:
        waiting = outcomes.pop(0)(one._ending)
        progress("land")
        return SimpleNamespace(waiting=waiting)

    monkeypatch.setattr(
        outage_replay,
        "Replay",
        lambda *_, progress, **__: SimpleNamespace(of=lambda _: of(progress)),
    )

    def commit(_: object, ledger: HeldLedger, *__: object) -> None:
        own = next_of(ledger, 10, 10)
        recorded.append(own.replay_due)
        ledger.state = replace(ledger.state, newest=own)

    monkeypatch.setattr(outage_replay, "commit_nothing", commit)
    return one, clock, recorded


def turn(one: OutageReplay) -> None:
    one()
    if one._thread is not None:
        one._thread.join(10)


def failing(_: threading.Event) -> int:
    raise ConnectionError("DLQ topic is unavailable")


def test_it_is_tried_again_with_backoff_when_it_failed_or_left_dead_letters_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [failing, lambda _: 3, lambda _: 0]
    one, clock, recorded = replaying(monkeypatch, left)
    for remaining in (2, 1):
        turn(one)
        turn(one)
        assert len(left) == remaining, "not again at once"
        clock.now += 120
    assert recorded == []
    turn(one)
    assert (left, recorded) == ([], [0])
    turn(one)
    assert recorded == [0], "recorded once"


def test_only_the_recording_is_done_again_when_a_batch_was_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    one, clock, recorded = replaying(monkeypatch, [lambda _: 0])
    monkeypatch.setattr(outage_replay, "_LOCK_S", 0.01)
    with one.ledger.busy:
        turn(one)
    assert recorded == []
    assert next_of(one.ledger, 10, 12).replay_due == 0, "the batch's ledger commit says it as well"
    clock.now += 120
    turn(one)
    assert recorded == [0]


def test_no_replay_starts_while_the_table_is_unavailable_or_a_jump_unrecorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _, recorded = replaying(monkeypatch, [lambda _: 0])
    one.ledger.published_up_to(Marks({0: 12}), landed=False)
    turn(one)
    assert recorded == []


@pytest.mark.parametrize("listens", [True, False])
def test_an_end_waits_for_it_within_a_bound(monkeypatch: pytest.MonkeyPatch, *, listens: bool) -> None:
    """One that goes on to its next step learns of the end there; one that hangs is interrupted and left."""
    hanging = threading.Event()

    def hang(ending: threading.Event) -> int:
        (ending if listens else hanging).wait(30)
        return 0

    one, _, recorded = replaying(monkeypatch, [hang])
    monkeypatch.setattr(outage_replay, "_GRACE_S", 0.3)
    one()
    stopping = threading.Event()
    stopping.set()
    began = time.monotonic()
    one.finish(stopping)
    one.abandon()
    assert time.monotonic() - began < 5
    assert bool(one.interrupted) is not listens  # type: ignore[attr-defined]
    one()
    hanging.set()
    assert one._thread is not None
    one._thread.join(10)
    assert recorded == [], "it goes no further: the next start does it again"


def test_over_connect_the_log_is_asked_now_and_then_as_the_batches_run_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [lambda _: 0]
    one, clock, recorded = replaying(monkeypatch, left, due=0)
    monkeypatch.setattr(outage_replay, "over_connect", lambda _: True)
    monkeypatch.setattr(OutageReplay, "_left_behind", lambda _: False)
    in_the_log = [0]

    def refresh(ledger: HeldLedger, _: object) -> None:
        newest = replace(NEWEST, replay_due=in_the_log[0])
        ledger.state = replace(ledger.state, newest=newest)

    monkeypatch.setattr(HeldLedger, "refresh", refresh)
    turn(one)
    in_the_log[0] = 4
    turn(one)
    assert recorded == [], "not each second"
    clock.now += 31
    turn(one)
    assert (left, recorded) == ([], [0])
