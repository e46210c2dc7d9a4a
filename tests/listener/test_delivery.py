"""`adr-listen-at-least-once.md`, line by line: commit after success, rewind after failure, exit condition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tidemark.contract.errors import ConfigError, RetriableError
from tidemark.dev.producers import SampleRecord
from tidemark.listener import Batch, BatchFailure, BatchResult, ListenerStopped, PartialSuccess
from tidemark.listener.member import GroupMember

if TYPE_CHECKING:
    from tests.listener.conftest import Scene

Scenes = Callable[..., "Scene"]


def values(batch: Batch) -> list[bytes | None]:
    return [record.value for record in batch.records]


@pytest.mark.guarantee("listener: success commits")
def test_offsets_are_committed_when_the_execution_succeeds(scene: Scenes) -> None:
    one = scene(partitions=2)
    one.fill([3, 2])
    one.listen()
    one.wait_committed({0: 3, 1: 2})
    assert sorted(one.seen) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


@pytest.mark.guarantee("listener: processed for sure before it counts")
def test_nothing_is_committed_before_the_execution_is_completed(scene: Scenes) -> None:
    one = scene()
    one.fill([2])
    go = threading.Event()
    one.listen(lambda batch: go.wait(20))
    one.wait(lambda: one.executions)
    assert one.committed() == {}
    go.set()
    one.wait_committed({0: 2})


@pytest.mark.guarantee("listener: failure rewinds to the last success")
def test_partitions_are_rewound_to_the_last_success_when_an_execution_fails(scene: Scenes) -> None:
    one = scene()
    one.fill([4])
    failures = iter([BatchFailure(2, ValueError("no"))])

    def handler(batch: Batch) -> None:
        for error in failures:
            raise error

    one.listen(handler, batch_size=4, batch_interval=1)
    one.wait_committed({0: 4})
    assert one.executions == [[(0, 0), (0, 1), (0, 2), (0, 3)], [(0, 2), (0, 3)]]
    assert one.running[0].listener.totals.rewinds == 1


@pytest.mark.guarantee("listener: autocommit is off")
def test_auto_commit_is_refused_when_it_is_configured() -> None:
    with pytest.raises(ConfigError, match=r"enable\.auto\.commit"):
        GroupMember({"group.id": "g", "bootstrap.servers": "localhost:1", "enable.auto.commit": True}, ["t"])


@pytest.mark.guarantee("listener: one concurrent execution")
def test_one_execution_runs_at_a_time_when_more_records_wait(scene: Scenes) -> None:
    one = scene(partitions=3)
    one.fill([5, 5, 5])
    running, most = 0, 0
    lock = threading.Lock()

    def handler(batch: Batch) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.02)
        with lock:
            running -= 1

    one.listen(handler, batch_size=2)
    one.wait_committed({0: 5, 1: 5, 2: 5})
    assert most == 1


@pytest.mark.guarantee("listener: batches by size")
def test_a_batch_is_handed_over_when_its_size_is_reached(scene: Scenes) -> None:
    one = scene()
    one.fill([7])
    one.listen(batch_size=3, batch_interval=1)
    one.wait_committed({0: 7})
    assert [len(execution) for execution in one.executions] == [3, 3, 1]


@pytest.mark.guarantee("listener: batches by time")
def test_a_batch_is_handed_over_when_its_time_is_up(scene: Scenes) -> None:
    one = scene()
    one.fill([2])
    one.listen(batch_size=1000, batch_interval=0.2)
    one.wait_committed({0: 2}, timeout=15)
    assert sum(len(execution) for execution in one.executions) == 2


@pytest.mark.guarantee("case: kafka-11", "listener: exit condition: dead letter", "consumers: headers")
def test_a_record_is_dead_lettered_when_it_fails_max_attempts_times(scene: Scenes) -> None:
    one = scene(partitions=3)
    one.produce(
        SampleRecord(b"good", key=b"a", partition=2),
        SampleRecord(b"bad\xff", key=b"b\x00", partition=2, headers=[("h", b"1"), ("h", b"2"), ("n", None)]),
        SampleRecord(b"good", key=b"c", partition=2),
    )

    def handler(batch: Batch) -> None:
        for index, value in enumerate(values(batch)):
            if value != b"good":
                raise BatchFailure(index, ValueError("no good"))

    one.listen(handler, max_attempts=3)
    one.wait_committed({2: 3})
    (dead_letter,) = one.dead_letters(1)
    assert (dead_letter.key(), dead_letter.value(), dead_letter.partition()) == (b"b\x00", b"bad\xff", 2)
    assert dead_letter.headers()[:3] == [("h", b"1"), ("h", b"2"), ("n", None)]
    headers = {
        n.removeprefix("__dlq.errors."): v for n, v in dead_letter.headers() if n.startswith("__dlq.errors.")
    }
    assert headers["topic"] == one.topic.encode()
    assert (headers["partition"], headers["offset"], headers["delivery.count"]) == (b"2", b"1", b"3")
    assert headers["exception.class.name"] == b"ValueError"
    assert headers["message"] == b"no good"
    assert headers["group"] == one.group.encode()
    assert headers["correlation.id"] == f"{one.topic}-2-1".encode()
    assert [execution.count((2, 1)) for execution in one.executions].count(1) == 3


@pytest.mark.guarantee("listener: exit condition: stop")
def test_the_listener_stops_with_exit_code_1_when_the_policy_says_so(scene: Scenes) -> None:
    one = scene()
    one.fill([3])

    def handler(batch: Batch) -> None:
        raise BatchFailure(1 if len(batch) == 3 else 0, ValueError("no"))

    running = one.listen(handler, batch_size=3, batch_interval=1, max_attempts=2, on_exhausted="stop")
    assert running.ended()
    assert isinstance(running.raised, ListenerStopped)
    assert running.raised.exit_code == 1
    assert one.committed() == {0: 1}
    assert one.dead_letter_count() == 0
    one.running.clear()


def test_only_the_bad_record_is_dead_lettered_when_the_handler_cannot_name_it(scene: Scenes) -> None:
    one = scene(partitions=2)
    one.fill([6, 6])

    def handler(batch: Batch) -> None:
        if b"0/4" in values(batch):
            raise ValueError("something in there")

    one.listen(handler, batch_size=12, batch_interval=1, max_attempts=2)
    one.wait_committed({0: 6, 1: 6})
    (dead_letter,) = one.dead_letters(1)
    assert dead_letter.value() == b"0/4"


@pytest.mark.guarantee("listener: failed records are submitted again")
def test_only_failed_records_come_again_when_a_batch_succeeds_in_part(scene: Scenes) -> None:
    one = scene(partitions=2)
    one.fill([4, 2])
    first = True

    def handler(batch: Batch) -> object:
        nonlocal first
        if not first:
            return None
        first = False
        bad = {
            i: ValueError("no")
            for i, r in enumerate(batch.records)
            if (r.partition, r.offset) in ((0, 1), (1, 1))
        }
        raise PartialSuccess(bad)

    one.listen(handler, batch_size=6, batch_interval=1)
    one.wait_committed({0: 4, 1: 2})
    assert sorted(one.executions[0]) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    assert sorted(r for execution in one.executions[1:] for r in execution) == [(0, 1), (1, 1)]


def test_other_partitions_go_on_when_one_backs_off(scene: Scenes) -> None:
    one = scene(partitions=2)
    one.fill([1, 0])
    failed_at: list[int] = []

    def handler(batch: Batch) -> BatchResult | None:
        bad = [i for i, r in enumerate(batch.records) if r.partition == 0]
        if bad and len(failed_at) < 2:
            failed_at.append(len(one.executions))
            raise PartialSuccess({i: ValueError("no") for i in bad})
        return None

    one.listen(handler, batch_size=1, retry={"base": 5, "cap": 5, "jitter": 0})
    one.wait(lambda: failed_at)
    one.fill([0, 30])
    one.wait_committed({0: 1, 1: 30})
    between = one.executions[failed_at[0] : failed_at[1] - 1]
    assert between, "the other partition waited too"
    assert {partition for execution in between for partition, _ in execution} == {1}


def test_no_attempt_is_counted_when_a_dependency_is_down(scene: Scenes) -> None:
    one = scene()
    one.fill([2])
    outages = iter(range(5))

    def handler(batch: Batch) -> None:
        if next(outages, None) is not None:
            raise RetriableError("down", retry_after=0.01)

    one.listen(handler, max_attempts=2)
    one.wait_committed({0: 2})
    assert one.dead_letter_count() == 0


def test_attempts_are_not_reset_when_another_partition_succeeds_or_the_error_changes(scene: Scenes) -> None:
    one = scene(partitions=2)
    one.fill([1, 8])
    tries = 0

    def handler(batch: Batch) -> None:
        nonlocal tries
        if batch.records[0].partition == 0:
            tries += 1
            raise (ValueError if tries % 2 else KeyError)("no")

    one.listen(handler, batch_size=1, max_attempts=4)
    one.wait_committed({0: 1, 1: 8})
    assert tries == 4
    assert len(one.dead_letters(1)) == 1


@pytest.mark.guarantee("listener: no endless loop")
def test_the_listener_stops_before_it_floods_the_dlq_when_every_record_fails(scene: Scenes) -> None:
    one = scene()
    one.fill([20])

    def handler(batch: Batch) -> None:
        raise ValueError("everything is wrong")

    running = one.listen(handler, batch_size=4, max_attempts=1, max_dead_letters_in_a_row=3)
    assert running.ended()
    assert isinstance(running.raised, ListenerStopped)
    assert one.dead_letter_count() == 3
    assert one.committed() == {0: 3}
    one.running.clear()
