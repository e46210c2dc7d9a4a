"""Rebalances in every phase, both kinds of assignor, and the trouble that clients of Kafka have with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidemark.contract.errors import DataLoss, RetriableError
from tidemark.contract.marks import Marks
from tidemark.dev.producers import SampleRecord
from tidemark.listener import Batch, BatchFailure, BatchResult, PartialSuccess, from_marks

if TYPE_CHECKING:
    from tests.listener.conftest import Scene

Scenes = Callable[..., "Scene"]
ASSIGNORS = ["cooperative-sticky", "range"]


@pytest.mark.guarantee("listener: no message is lost", "fault tolerance: rebalance")
@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("phase", ["collecting", "running", "backing off"])
def test_no_record_is_lost_when_a_member_joins_and_leaves(scene: Scenes, assignor: str, phase: str) -> None:
    one = scene(partitions=4)
    one.fill([20] * 4)
    done: list[tuple[int, int]] = []
    failed: set[tuple[int, int]] = set()
    arrived = threading.Event()

    def handler(batch: Batch) -> None:
        here = [(r.partition, r.offset) for r in batch.records]
        if phase == "running" and len(done) >= 20:
            time.sleep(0.5)
        if phase == "backing off" and len(done) >= 20:
            for index, where in enumerate(here):
                if where[1] % 5 == 4 and where not in failed:
                    failed.add(where)
                    done.extend(here[:index])
                    raise BatchFailure(index, ValueError("once"))
        done.extend(here)
        if len(done) >= 20:
            arrived.set()

    options = {
        "assignor": assignor,
        "batch_size": 7,
        "retry": {"base": 0.3, "cap": 0.3, "jitter": 0},
    }
    one.listen(handler, batch_interval=1.0 if phase == "collecting" else 0.05, **options)
    one.wait(arrived.is_set)
    second = one.listen(handler, batch_interval=0.05, **options)
    time.sleep(0.7)
    second.stop()
    one.wait_committed(dict.fromkeys(range(4), 20))
    assert {(p, o) for p in range(4) for o in range(20)} == set(done)


@pytest.mark.guarantee("listener: only of partitions still assigned")
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_late_result_changes_nothing_when_its_partition_went_away(scene: Scenes, assignor: str) -> None:
    one = scene(partitions=2)
    one.fill([1, 1])
    release, taken = threading.Event(), threading.Event()
    owners: list[str] = []

    def slow(batch: Batch) -> None:
        owners.append("first")
        taken.set()
        release.wait(30)

    first = one.listen(slow, assignor=assignor, batch_size=2, revoke_grace=0)
    one.wait(taken.is_set)
    one.listen(lambda batch: owners.append("second"), assignor=assignor)
    one.wait(lambda: "second" in owners)
    one.wait(lambda: len(one.committed()) == 1)
    before = one.committed()
    release.set()
    one.wait_committed({0: 1, 1: 1})
    assert before.items() <= one.committed().items()
    assert first.raised is None


def test_a_running_batch_is_committed_when_it_ends_within_the_revoke_grace(scene: Scenes) -> None:
    one = scene()
    one.fill([1])
    taken = threading.Event()
    ended: list[float] = []
    revoked: list[float] = []

    def handler(batch: Batch) -> None:
        taken.set()
        time.sleep(4)
        ended.append(time.monotonic())

    one.listen(
        handler, assignor="range", revoke_grace=8, on_revoked=lambda gone: revoked.append(time.monotonic())
    )
    one.wait(taken.is_set)
    one.listen(handler, assignor="range")
    one.wait_committed({0: 1})
    assert revoked, "there was no rebalance while the batch ran"
    assert ended[0] <= revoked[0]
    time.sleep(1.5)
    assert one.seen == [(0, 0)]


@pytest.mark.guarantee("case: kafka-05", "consumers: a lag of 1")
def test_the_next_offset_is_committed_and_the_lag_is_0_when_all_is_done(scene: Scenes) -> None:
    """kafka-05."""
    one = scene()
    one.fill([3])
    one.listen()
    one.wait_committed({0: 3})
    one.running.pop().stop()
    one.executions.clear()
    again = one.listen()
    one.produce(SampleRecord(b"later", partition=0))
    one.wait_committed({0: 4})
    assert one.seen == [(0, 3)]
    assert again.listener.totals.done == 1


@pytest.mark.guarantee("case: kafka-06", "consumers: seek after a rebalance")
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_gone_partition_is_left_alone_when_a_rebalance_comes_before_the_rewind(
    scene: Scenes, assignor: str
) -> None:
    """kafka-06: record 1 of p0 fails while p1 is fine, and a rebalance comes before the rewind."""
    one = scene(partitions=2)
    one.fill([3, 3])
    failing, joined = threading.Event(), threading.Event()
    fine: list[tuple[int, int]] = []

    def handler(batch: Batch) -> None:
        here = [(r.partition, r.offset) for r in batch.records]
        if (0, 1) in here and not failing.is_set():
            failing.set()
            joined.wait(20)
            fine.extend(w for w in here if w[0] == 1 or w == (0, 0))
            raise PartialSuccess({i: ValueError("no") for i, w in enumerate(here) if w[0] == 0 and w[1] >= 1})
        fine.extend(here)

    first = one.listen(handler, assignor=assignor, batch_size=6, batch_interval=1, revoke_grace=2)
    one.wait(failing.is_set)
    one.listen(handler, assignor=assignor)
    time.sleep(0.5)
    joined.set()
    one.wait_committed({0: 3, 1: 3})
    assert first.raised is None
    assert sorted(fine) == [(p, o) for p in range(2) for o in range(3)]


@pytest.mark.guarantee("case: kafka-07", "consumers: a slow handler")
def test_one_result_is_stored_when_a_handler_runs_longer_than_the_poll_interval(scene: Scenes) -> None:
    """kafka-07: the poll interval is 6 s, the handler takes 8, two workers, one request."""
    one = scene()
    one.fill([1])
    results: list[bytes | None] = []

    def handler(batch: Batch) -> None:
        time.sleep(8)
        results.append(batch.records[0].value)

    one.listen(handler, max_poll_interval=6, dlq_timeout=5, assignor="range")
    one.wait(lambda: one.executions)
    one.listen(handler, max_poll_interval=6, dlq_timeout=5, revoke_grace=0)
    one.wait_committed({0: 1})
    time.sleep(0.5)
    assert results == [b"0/0"]


@pytest.mark.guarantee("case: kafka-08", "consumers: partitions on their own")
def test_each_partition_is_committed_as_far_as_it_is_done_when_one_fails(scene: Scenes) -> None:
    """kafka-08: a poll returns p0[0,1] and p1[0,1]; p1[0] fails while p0[1] is not done."""
    one = scene(partitions=2)
    one.fill([2, 2])
    halfway: list[dict[int, int]] = []

    def handler(batch: Batch) -> BatchResult | None:
        here = [(r.partition, r.offset) for r in batch.records]
        if len(one.executions) == 2:
            halfway.append(one.committed())
        if (1, 0) in here and len(here) > 1 and len(one.executions) == 1:
            raise PartialSuccess({i: ValueError("no") for i, w in enumerate(here) if w in ((1, 0), (0, 1))})
        bad = {i: ValueError("no") for i, w in enumerate(here) if w == (1, 0)}
        if bad:
            raise PartialSuccess(bad)
        return None

    one.listen(handler, batch_size=4, batch_interval=1, max_attempts=3)
    one.wait_committed({0: 2, 1: 2})
    assert halfway == [{0: 1}]
    (dead_letter,) = one.dead_letters(1)
    assert dead_letter.value() == b"1/0"


@pytest.mark.guarantee("case: kafka-09", "consumers: noted before it is done")
def test_commits_cover_done_records_only_when_a_record_raises_at_shutdown(scene: Scenes) -> None:
    """kafka-09: good, bad (raises), good; stopped in between."""
    one = scene()
    one.produce(*(SampleRecord(v, partition=0) for v in (b"1", b"bad", b"3")))
    written: list[int] = []
    edited = False

    def handler(batch: Batch) -> None:
        for index, record in enumerate(batch.records):
            try:
                written.append(int(record.value or b""))
            except ValueError as error:
                if not edited:
                    raise BatchFailure(index, error) from error

    first = one.listen(
        handler, batch_size=3, batch_interval=1, max_attempts=1000, retry={"base": 0.05, "cap": 0.05}
    )
    one.wait(lambda: first.listener.totals.failed >= 2)
    one.running.pop().stop()
    assert one.committed() == {0: 1}
    edited = True
    one.listen(handler)
    one.wait_committed({0: 3})
    assert written == [1, 3]


@pytest.mark.guarantee("case: kafka-10", "listener: committed offsets only grow", "consumers: two committers")
def test_the_newer_commit_stands_when_a_past_member_commits_again(scene: Scenes) -> None:
    """kafka-10: A stalls with work done, B takes over and goes further, then A wakes and commits."""
    one = scene()
    one.fill([2])
    stalled = threading.Event()

    class Stalled:
        def wait(self, timeout: float) -> BatchResult:
            stalled.set()
            time.sleep(8)
            return BatchResult.success()

        def cancel(self) -> None: ...

    class Stalling:
        def submit(self, batch: Batch) -> Stalled:
            return Stalled()

        def close(self) -> None: ...

    first = one.listen(executor=Stalling(), max_poll_interval=6, dlq_timeout=5, batch_size=2)
    one.wait(stalled.is_set)
    one.produce(*(SampleRecord(b"more", partition=0) for _ in range(3)))
    one.listen(max_poll_interval=6, dlq_timeout=5)
    one.wait_committed({0: 5})
    time.sleep(3)
    assert one.committed() == {0: 5}
    assert first.raised is None


@pytest.mark.guarantee("case: ops-04", "consumers: a shorter topic")
@pytest.mark.parametrize("policy", ["stop", "continue"])
def test_a_position_beyond_the_end_is_noticed_when_the_topic_is_shorter(scene: Scenes, policy: str) -> None:
    one = scene()
    one.fill([3])
    one.commit(p0=100)
    running = one.listen(on_data_loss=policy)
    if policy == "stop":
        assert running.ended()
        assert isinstance(running.raised, DataLoss)
        assert "ends at 3" in str(running.raised)
        assert one.seen == []
        one.running.clear()
    else:
        one.wait_committed({0: 3})
        assert one.seen == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.guarantee("case: kafka-04", "consumers: retention")
@pytest.mark.parametrize("policy", ["stop", "continue"])
def test_a_position_below_the_start_is_noticed_when_retention_passed_it(scene: Scenes, policy: str) -> None:
    one = scene()
    one.fill([5])
    one.commit(p0=2)
    admin = AdminClient({"bootstrap.servers": one.bootstrap})
    for future in admin.delete_records([TopicPartition(one.topic, 0, 4)]).values():
        future.result(10)
    running = one.listen(on_data_loss=policy)
    if policy == "stop":
        assert running.ended()
        assert isinstance(running.raised, DataLoss)
        assert "2 offsets" in str(running.raised)
        one.running.clear()
    else:
        one.wait_committed({0: 5})
        assert one.seen == [(0, 4)]


def test_reading_starts_at_the_tables_marks_when_the_handler_writes_a_table(scene: Scenes) -> None:
    """`fault-tolerance.md`: drop the buffers, re-read the marks of the partitions assigned, seek there."""
    one = scene(partitions=2)
    one.fill([5, 5])
    one.commit(p0=1, p1=5)
    events: list[str] = []

    def marks(partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        events.append("marks")
        return {where: {0: 3, 1: 2}[where[1]] for where in partitions}

    one.listen(starting_offsets=marks, on_assigned=lambda partitions: events.append("dropped"))
    one.wait_committed({0: 5, 1: 5})
    one.wait(lambda: len(one.seen) == 5)
    assert sorted(one.seen) == [(0, 3), (0, 4), (1, 2), (1, 3), (1, 4)]
    assert events == ["dropped", "marks"]


def test_a_partition_starts_at_its_earliest_record_when_it_has_no_mark(
    scene: Scenes,
) -> None:
    one = scene(partitions=2)
    one.fill([3, 3])
    one.commit(p0=3, p1=3)
    asked: list[str] = []

    def marks_of(topic: str) -> Marks:
        asked.append(topic)
        return Marks({0: 2})

    one.listen(starting_offsets=from_marks(marks_of))
    one.wait(lambda: len(one.seen) == 4)
    assert sorted(one.seen) == [(0, 2), (1, 0), (1, 1), (1, 2)]
    assert asked == [one.topic]


def test_nothing_is_read_until_the_marks_are_known_when_the_table_is_down(scene: Scenes) -> None:
    one = scene()
    one.fill([5])
    asked = 0

    def marks(partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise RetriableError("the table is down")
        return dict.fromkeys(partitions, 2)

    one.listen(starting_offsets=marks)
    one.wait_committed({0: 5})
    assert one.seen == [(0, 2), (0, 3), (0, 4)]


def test_a_running_batch_is_finished_and_committed_when_the_listener_is_stopped(scene: Scenes) -> None:
    one = scene()
    one.fill([2])
    started = threading.Event()

    def handler(batch: Batch) -> None:
        started.set()
        time.sleep(1)

    running = one.listen(handler)
    one.wait(started.is_set)
    running.stop()
    assert one.committed() == {0: 2}
    assert running.listener.totals.batches == 1


def test_a_hanging_batch_is_left_uncommitted_when_the_shutdown_times_out(scene: Scenes) -> None:
    one = scene()
    one.fill([2])
    started, forever = threading.Event(), threading.Event()

    def handler(batch: Batch) -> None:
        started.set()
        forever.wait(60)

    running = one.listen(handler, shutdown_timeout=0.5)
    one.wait(started.is_set)
    running.stop()
    forever.set()
    assert one.committed() == {}


def test_the_member_stays_in_the_group_when_a_backoff_exceeds_the_poll_interval(scene: Scenes) -> None:
    one = scene()
    one.fill([2])
    revoked: list[object] = []
    tries = 0

    def handler(batch: Batch) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ValueError("no")

    one.listen(
        handler,
        max_poll_interval=6,
        dlq_timeout=5,
        batch_size=2,
        batch_interval=1,
        retry={"base": 7.5, "jitter": 0},
        on_revoked=revoked.append,
    )
    one.wait_committed({0: 2})
    assert one.executions == [[(0, 0), (0, 1)], [(0, 0), (0, 1)]]
    assert revoked == []


def test_no_attempt_is_made_after_a_stop_when_a_backoff_is_long(scene: Scenes) -> None:
    one = scene()
    one.fill([1])

    def handler(batch: Batch) -> None:
        raise ValueError("no")

    running = one.listen(handler, retry={"base": 600, "cap": 600})
    one.wait(lambda: running.listener.totals.failed == 1)
    before = time.monotonic()
    running.stop()
    assert time.monotonic() - before < 5
    assert one.committed() == {}
