"""The breaker's states, permits, memory and threads."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidemark.config.sections import BreakerSettings
from tidemark.contract.errors import BreakerOpen, NonRetriableError, RetriesExhausted, UsageError
from tidemark.contract.failures import Action, Decision, Scope
from tidemark.resilience.breaker import Breaker, StateChange
from tidemark.resilience.breaker_state import State, StateFile
from tidemark.resilience.breakers import Breakers


class Clocks:
    def __init__(self) -> None:
        self.now, self.today = 1000.0, 1_700_000_000.0

    def mono(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.today

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        self.today += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def breaker(clocks: Clocks, **given: object) -> Breaker:
    return Breaker("orders/table", clock=clocks.mono, wall=clocks.wall, **given)  # type: ignore[arg-type]


def fail(subject: Breaker, error: Exception | None = None) -> None:
    def operation() -> None:
        raise error or ConnectionError("down")

    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it raised, the breaker lets it through
        subject.call(operation)


def opened(clocks: Clocks, **given: object) -> Breaker:
    subject = breaker(clocks, **given)
    for _ in range(5):
        fail(subject)
    assert subject.state is State.OPEN
    return subject


def test_five_failures_in_a_row_open_it(clocks: Clocks) -> None:
    subject = breaker(clocks)
    for _ in range(4):
        fail(subject)
    assert subject.state is State.CLOSED
    fail(subject)
    assert subject.state is State.OPEN


def test_success_starts_the_count_again(clocks: Clocks) -> None:
    subject = breaker(clocks)
    for _ in range(4):
        fail(subject)
    assert subject.call(lambda: 7) == 7
    for _ in range(4):
        fail(subject)
    assert subject.state is State.CLOSED


def test_nothing_is_tried_while_it_is_open(clocks: Clocks) -> None:
    subject = opened(clocks)
    clocks.pass_(59)
    tried: list[int] = []
    with pytest.raises(BreakerOpen) as caught:
        subject.call(lambda: tried.append(1))
    assert tried == []
    assert caught.value.retry_after == pytest.approx(1)
    assert subject.seconds_until_probe == pytest.approx(1)


def test_three_successful_probes_close_it_after_a_minute(clocks: Clocks) -> None:
    changes: list[StateChange] = []
    subject = opened(clocks, listeners=[changes.append])
    clocks.pass_(60)
    for expected in (State.HALF_OPEN, State.HALF_OPEN, State.CLOSED):
        subject.call(lambda: None)
        assert subject.state is expected
    assert [(change.old, change.new) for change in changes] == [
        (State.CLOSED, State.OPEN),
        (State.OPEN, State.HALF_OPEN),
        (State.HALF_OPEN, State.CLOSED),
    ]
    for _ in range(4):
        fail(subject)
    assert subject.state is State.CLOSED


def test_one_failed_probe_opens_it_for_another_minute(clocks: Clocks) -> None:
    subject = opened(clocks)
    clocks.pass_(60)
    subject.call(lambda: None)
    fail(subject)
    assert subject.state is State.OPEN
    clocks.pass_(59)
    with pytest.raises(BreakerOpen):
        subject.acquire()


@pytest.mark.guarantee("reliability: breaker: limited requests while half open")
def test_one_probe_at_a_time_is_let_through(clocks: Clocks) -> None:
    subject = opened(clocks)
    clocks.pass_(60)
    probe = subject.acquire()
    with pytest.raises(BreakerOpen, match="being probed"):
        subject.acquire()
    probe.succeeded()
    subject.acquire()


def test_probe_without_an_answer_is_given_up_and_its_late_answer_counts_for_nothing(clocks: Clocks) -> None:
    subject = opened(clocks)
    clocks.pass_(60)
    hung = subject.acquire()
    clocks.pass_(60)
    probe = subject.acquire()
    hung.failed("too late")
    assert subject.state is State.HALF_OPEN
    probe.succeeded()
    assert subject.snapshot().successes == 1


def test_late_answers_of_a_former_state_change_nothing(clocks: Clocks) -> None:
    subject = breaker(clocks)
    old = [subject.acquire() for _ in range(7)]
    for permit in old[:5]:
        permit.failed()
    assert subject.state is State.OPEN
    old[5].succeeded()
    assert subject.state is State.OPEN
    clocks.pass_(60)
    for _ in range(3):
        subject.acquire().succeeded()
    old[6].failed()
    assert subject.snapshot().failures == 0


def test_answer_counts_once_when_it_is_given_twice(clocks: Clocks) -> None:
    subject = breaker(clocks)
    permit = subject.acquire()
    for _ in range(9):
        permit.failed()
    assert subject.snapshot().failures == 1


@pytest.mark.parametrize("error", [NonRetriableError("stop"), KeyError("bug"), PermissionError("no")])
def test_failure_that_is_not_the_destinations_gives_the_permit_back(clocks: Clocks, error: Exception) -> None:
    subject = opened(clocks)
    clocks.pass_(60)
    fail(subject, error)
    assert (subject.state, subject.snapshot().successes) == (State.HALF_OPEN, 0)
    subject.acquire().succeeded()


def test_permit_comes_back_when_the_operation_is_interrupted(clocks: Clocks) -> None:
    subject = opened(clocks)
    clocks.pass_(60)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        subject.call(interrupted)
    subject.acquire()


def test_operation_counts_once_however_many_attempts_it_took(clocks: Clocks) -> None:
    subject = breaker(clocks)
    decision = Decision("NETWORK", Action.RETRY, Scope.DEPENDENCY, counts_for_breaker=True)
    fail(subject, RetriesExhausted("x", attempts=4, decision=decision))
    assert subject.snapshot().failures == 1


def test_conflicts_with_other_writers_do_not_open_it(clocks: Clocks) -> None:
    subject = breaker(clocks)
    for _ in range(9):
        fail(subject, RuntimeError("[DELTA_CONCURRENT_APPEND] conflict"))
    assert subject.state is State.CLOSED


@pytest.mark.guarantee("reliability: breaker: thresholds")
def test_thresholds_follow_the_configuration(clocks: Clocks) -> None:
    subject = breaker(
        clocks, settings=BreakerSettings(failure_threshold=1, open_seconds=5, success_threshold=1)
    )
    fail(subject)
    clocks.pass_(5)
    subject.call(lambda: None)
    assert subject.state is State.CLOSED


def test_reset_closes_it_at_once(clocks: Clocks) -> None:
    subject = opened(clocks)
    subject.reset()
    assert subject.call(lambda: "through") == "through"


def test_broken_listener_changes_nothing(clocks: Clocks) -> None:
    def broken(change: StateChange) -> None:
        raise RuntimeError("metrics are down")

    assert opened(clocks, listeners=[broken]).state is State.OPEN


def test_breaker_may_be_asked_from_its_own_listener(clocks: Clocks) -> None:
    subject = breaker(clocks)
    seen: list[State] = []
    subject.add_listener(lambda change: seen.append(subject.state))
    for _ in range(5):
        fail(subject)
    assert seen == [State.OPEN]


def test_threads_get_one_probe_between_them(clocks: Clocks) -> None:
    subject = opened(clocks)
    clocks.pass_(60)
    start = threading.Barrier(16)

    def ask(_: int) -> bool:
        start.wait()
        try:
            subject.acquire()
        except BreakerOpen:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(ask, range(16))) == 1


def test_threads_lose_no_failure(clocks: Clocks) -> None:
    subject = breaker(clocks, settings=BreakerSettings(failure_threshold=10_000))

    def many(_: int) -> None:
        for _ in range(100):
            subject.acquire().failed()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(many, range(8)))
    assert subject.snapshot().failures == 800


def test_open_state_outlives_the_process(clocks: Clocks, tmp_path: Path) -> None:
    opened(clocks, file=StateFile(tmp_path, "orders/table"))
    clocks.pass_(20)
    clocks.now = 3.0
    again = breaker(clocks, file=StateFile(tmp_path, "orders/table"))
    assert again.seconds_until_probe == pytest.approx(40)
    clocks.pass_(40)
    again.call(lambda: None)
    assert again.state is State.HALF_OPEN


def test_failures_add_up_when_each_one_ends_the_process(clocks: Clocks, tmp_path: Path) -> None:
    for _ in range(5):
        fail(breaker(clocks, file=StateFile(tmp_path, "orders/table")))
    assert breaker(clocks, file=StateFile(tmp_path, "orders/table")).state is State.OPEN


def test_wait_is_at_most_a_minute_when_the_wall_clock_went_back(clocks: Clocks, tmp_path: Path) -> None:
    opened(clocks, file=StateFile(tmp_path, "orders/table"))
    clocks.today -= 86_400
    again = breaker(clocks, file=StateFile(tmp_path, "orders/table"))
    assert again.seconds_until_probe == pytest.approx(60)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"state": "AJAR"}', "null", "\x00\x01"])
def test_damaged_memory_counts_as_closed(clocks: Clocks, tmp_path: Path, damage: str) -> None:
    file = StateFile(tmp_path, "orders/table")
    opened(clocks, file=file)
    file.path.write_text(damage)
    assert breaker(clocks, file=StateFile(tmp_path, "orders/table")).state is State.CLOSED


def test_memory_that_cannot_be_written_stops_nobody(clocks: Clocks, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    subject = opened(clocks, file=StateFile(tmp_path / "file", "orders/table"))
    assert subject.state is State.OPEN


def test_reset_from_another_process_reaches_a_running_one(clocks: Clocks, tmp_path: Path) -> None:
    running = opened(clocks, file=StateFile(tmp_path, "orders/table"))
    other = Breakers(tmp_path)
    assert [entry.state for entry in other.snapshots()] == [State.OPEN]
    assert other.reset("orders/table") == ["orders/table"]
    assert running.call(lambda: "through") == "through"


def test_reset_names_what_there_is_when_the_name_is_unknown(tmp_path: Path) -> None:
    breakers = Breakers(tmp_path)
    fail(breakers.get("orders/table"))
    with pytest.raises(UsageError, match="orders/table"):
        breakers.reset("order")


def test_same_name_is_the_same_breaker(tmp_path: Path) -> None:
    breakers = Breakers(tmp_path)
    assert breakers.get("a") is breakers.get("a")
    assert breakers.get("a") is not breakers.get("b")


def test_names_that_look_alike_have_files_of_their_own(tmp_path: Path) -> None:
    assert StateFile(tmp_path, "a/b").path != StateFile(tmp_path, "a_b").path


def test_file_is_whole_json_without_leftovers(clocks: Clocks, tmp_path: Path) -> None:
    opened(clocks, file=StateFile(tmp_path, "orders/table"))
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text())["state"] == "OPEN"
