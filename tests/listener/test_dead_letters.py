"""The DLQ topic: what is awaited, what does not fit, what is kept from an earlier failure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import structlog
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from structlog.testing import capture_logs

from tidemark.contract.dead_letters import HEADER_BUDGET
from tidemark.contract.errors import ConfigError, NonRetriableError
from tidemark.dev.producers import SampleRecord, create_topic, delete_topic
from tidemark.listener import Batch, Failure, ListenerStopped, Record
from tidemark.listener.delivery.dead_letter import dead_letter_headers
from tidemark.listener.delivery.judging import judge_with
from tidemark.listener.delivery.settlement import GivenUp
from tidemark.listener.executor import ThreadExecution
from tidemark.resilience.classification import Classifier

if TYPE_CHECKING:
    from tests.listener.conftest import Scene

Scenes = Callable[..., "Scene"]
MOMENT = datetime(2024, 1, 1, tzinfo=UTC)


def fail(batch: Batch) -> None:
    raise ValueError("no")


def test_a_line_of_a_batch_is_traced_to_its_records() -> None:
    records = tuple(Record("t", 2, offset, None, None, (("traceparent", b"00-7"),)) for offset in (5, 6, 8))
    traced: list[str] = []

    def handler(batch: Batch) -> None:
        traced.append(structlog.contextvars.get_contextvars()["correlation_id"])

    for batch in (Batch(records), Batch(records[:1])):
        assert ThreadExecution(batch, handler, judge_with(Classifier())).wait(10) is not None
    assert traced == ["t-2-5+2", "00-7"]


@pytest.mark.guarantee("case: replay-01")
def test_nothing_is_committed_and_the_listener_stops_when_the_dlq_keeps_refusing(scene: Scenes) -> None:
    one = scene(max_message_bytes="100")
    one.fill([1])
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
        running = one.listen(fail, max_attempts=1, max_dlq_failures=2)
        assert running.ended()
    traced = [e["correlation_id"] for e in logged if e["event"] == "dead letters not written"]
    assert traced == [f"{one.topic}-0-0"] * 2
    assert isinstance(running.raised, ListenerStopped)
    assert one.committed() == {}
    assert one.dead_letter_count() == 0
    one.running.clear()


def test_the_dead_letter_is_written_when_the_dlq_heals(scene: Scenes) -> None:
    one = scene(max_message_bytes="100")
    one.fill([1])
    running = one.listen(fail, max_attempts=1, max_dlq_failures=1000)
    one.wait(lambda: running.listener.totals.rewinds >= 2)
    resource = ConfigResource(
        ResourceType.TOPIC,
        f"{one.topic}-dlq",
        incremental_configs=[
            ConfigEntry("max.message.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin = AdminClient({"bootstrap.servers": one.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(10)
    one.wait_committed({0: 1})
    assert len(one.dead_letters(1)) == 1


def test_one_line_says_how_many_were_dead_lettered_and_why(scene: Scenes) -> None:
    one = scene()
    one.fill([2])
    with capture_logs() as lines:
        one.listen(fail, max_attempts=1)
        one.wait_committed({0: 2})
    published = [line for line in lines if line["event"] == "dead letters published"]
    assert {line["log_level"] for line in published} == {"info"}
    assert sum(line["dead_letters"] for line in published) == 2
    assert all(sum(line["codes"].values()) == line["dead_letters"] for line in published)


@pytest.mark.guarantee("case: dlq-01", "consumers: a value too large for the DLQ")
def test_a_pointer_is_written_when_the_value_does_not_fit_the_dlq(scene: Scenes) -> None:
    one = scene(max_message_bytes="10000")
    one.produce(SampleRecord(b"x" * 9950, key=b"k"))
    one.listen(fail, max_attempts=1)
    one.wait_committed({0: 1})
    (dead_letter,) = one.dead_letters(1)
    headers = dict(dead_letter.headers())
    assert (dead_letter.key(), dead_letter.value()) == (b"k", None)
    assert headers["__dlq.errors.value.pointer"] == f"{one.topic}-0-0".encode()


def test_the_partition_is_taken_modulo_when_the_dlq_has_fewer(scene: Scenes) -> None:
    one = scene(partitions=3, dlq_partitions=2)
    one.produce(SampleRecord(b"a", partition=2))
    one.listen(fail, max_attempts=1)
    one.wait_committed({2: 1})
    (dead_letter,) = one.dead_letters(1)
    assert dead_letter.partition() == 0


@pytest.mark.guarantee("case: dlq-02", "consumers: a null value")
def test_a_null_value_keeps_its_key_when_it_is_dead_lettered(scene: Scenes) -> None:
    one = scene()
    one.produce(SampleRecord(None, key=b"k2"))
    one.listen(fail, max_attempts=1)
    one.wait_committed({0: 1})
    (dead_letter,) = one.dead_letters(1)
    assert (dead_letter.key(), dead_letter.value()) == (b"k2", None)


def test_the_listener_refuses_to_start_when_the_dlq_topic_is_missing(scene: Scenes) -> None:
    one = scene()
    delete_topic(one.bootstrap, f"{one.topic}-dlq")
    running = one.listen()
    assert running.ended()
    assert isinstance(running.raised, ConfigError)
    assert "does not exist" in str(running.raised)
    one.running.clear()


def test_the_listener_refuses_to_start_when_the_dlq_topic_is_compacted(scene: Scenes) -> None:
    one = scene()
    delete_topic(one.bootstrap, f"{one.topic}-dlq")
    create_topic(one.bootstrap, f"{one.topic}-dlq", 1, cleanup_policy="compact")
    running = one.listen()
    assert running.ended()
    assert isinstance(running.raised, NonRetriableError)
    assert "cleanup.policy=compact" in str(running.raised)
    assert "kafka-configs.sh" in str(running.raised.hint)
    one.running.clear()


def given_up(*headers: tuple[str, bytes | None], message: str = "no") -> GivenUp:
    record = Record("t", 1, 7, b"k", b"v", headers=headers, timestamp=1700000000000)
    return GivenUp(record, Failure("ValueError", message), attempts=4)


@pytest.mark.guarantee("case: replay-01", "consumers: an attempt counter")
def test_coordinates_stay_and_the_error_changes_when_a_replayed_record_fails_again() -> None:
    first = dead_letter_headers(given_up(("h", b"1"), message="first"), group="g", failed_at=MOMENT)
    again = GivenUp(
        Record("t", 0, 99, b"k", b"v", headers=first, timestamp=5), Failure("KeyError", "second"), attempts=1
    )
    second = dead_letter_headers(again, group="g", failed_at=MOMENT)
    assert second[: len(first)] == first, "those of the first failure stay in front, as the record's own"
    names = [n.removeprefix("__dlq.errors.") for n, _ in second]
    ours = dict(zip(names[len(first) :], (v for _, v in second[len(first) :]), strict=True))
    assert names[len(first)] == "topic", "a reader finds where Tidemark's headers begin"
    assert len(ours) == len(second) - len(first), "each name once"
    assert (ours["topic"], ours["partition"], ours["offset"]) == (b"t", b"0", b"99")
    assert (ours["message"], ours["exception.class.name"]) == (b"second", b"KeyError")


def test_a_dead_letter_names_its_own_coordinates_when_its_producer_forged_others(scene: Scenes) -> None:
    forged = [("topic", b"other"), ("partition", b"7"), ("offset", b"7"), ("timestamp", b"7")]
    one = scene()
    one.produce(SampleRecord(b"v", headers=[(f"__dlq.errors.{n}", v) for n, v in forged], timestamp_ms=1000))
    one.listen(fail, max_attempts=1)
    one.wait_committed({0: 1})
    (dead_letter,) = one.dead_letters(1)
    named = {n.removeprefix("__dlq.errors."): v for n, v in dead_letter.headers()}
    assert [named[n] for n, _ in forged] == [one.topic.encode(), b"0", b"0", b"1000"]


@pytest.mark.parametrize(("count", "written"), [(b"2", b"2"), (b"x", b"0"), (b"9" * 99, b"0"), (None, b"0")])
def test_the_count_of_replays_is_that_of_the_replay_header(count: bytes | None, written: bytes) -> None:
    headers = dead_letter_headers(given_up(("__dlq.replay.count", count)), group="g", failed_at=MOMENT)
    assert dict(headers)["__dlq.errors.replay.count"] == written


def test_headers_stay_within_16_kib_when_the_record_brings_many() -> None:
    many = tuple((f"h{i}", b"x" * 1000) for i in range(30))
    headers = dead_letter_headers(given_up(*many, message="m" * 50_000), group="g", failed_at=MOMENT)
    assert sum(len(n) + len(v or b"") for n, v in headers) <= HEADER_BUDGET
    assert dict(headers)["__dlq.errors.offset"] == b"7"


@pytest.mark.parametrize("name", ["traceparent", "correlation_id", "X-Correlation-Id"])
def test_the_correlation_id_is_the_headers_when_it_brings_one(name: str) -> None:
    headers = dead_letter_headers(given_up((name, b"abc")), group="g", failed_at=MOMENT)
    assert dict(headers)["__dlq.errors.correlation.id"] == b"abc"
