"""What a handler's exception means: public errors, outages that are known as such, and everything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tidemark.config.listener import Listener, RetryBackoff
from tidemark.config.reading.load import parse_settings
from tidemark.contract.errors import BreakerOpen, NonRetriableError, RetriableError
from tidemark.contract.failures import Scope
from tidemark.listener import Batch, BatchFailure, BatchResult, PartialSuccess, Record, member
from tidemark.listener.delivery.assignment import Assignment
from tidemark.listener.delivery.failure import Failure
from tidemark.listener.delivery.judging import judge_with, policy_of
from tidemark.listener.delivery.settlement import Settler
from tidemark.listener.executor import InProcessExecutor
from tidemark.listener.run import listener_for
from tidemark.resilience.classification import Classifier

JUDGE = judge_with(Classifier())
STREAM = {"schema": {"ddl": "id INT"}, "destination": {"table": "a.b.c"}, "supported-formats": ["JSON"]}


class Own(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "scope"),
    [
        (RetriableError("down"), Scope.DEPENDENCY),
        (ConnectionResetError("reset"), Scope.DEPENDENCY),
        (TimeoutError("late"), Scope.DEPENDENCY),
        (NonRetriableError("stop"), Scope.PROCESS),
        (ValueError("bad"), Scope.RECORD),
        (KeyError("bad"), Scope.RECORD),
        (Own("unheard of"), Scope.RECORD),
    ],
)
def test_a_failure_reaches_as_far_as_its_error_says(error: Exception, scope: Scope) -> None:
    failure = JUDGE(error)
    assert failure.scope is scope
    assert failure.retriable
    assert str(error.args[0]) in failure.message


def test_no_attempt_is_counted_when_a_breaker_was_open() -> None:
    failure = JUDGE(BreakerOpen("open", retry_after=12))
    assert failure.deferred
    assert failure.retry_after == 12


def test_the_cause_is_named_when_there_is_one() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise Own("outer") from inner
    except Own as error:
        failure = JUDGE(error)
    assert failure.exception_class.endswith("Own")
    assert failure.cause_class == "KeyError"


def test_waits_double_up_to_the_cap_and_spread() -> None:
    def wait(failures: int, uniform: Callable[[float, float], float]) -> float | None:
        return policy_of(RetryBackoff()).delay(failures, uniform=uniform)

    assert [wait(n, lambda low, high: (low + high) / 2) for n in (1, 2, 3, 4, 5)] == [1, 2, 4, 8, 16]
    assert (wait(200, lambda low, high: high) or 99) <= 30
    assert wait(1, lambda low, high: low) == 0.75


def test_an_index_outside_the_batch_fails_the_whole_batch() -> None:
    named: Any = "0"
    for error in (
        BatchFailure(5, Own("x")),
        BatchFailure(named, Own("x")),
        PartialSuccess({-1: Own("x")}),
        PartialSuccess({named: Own("x")}),
        PartialSuccess({}),
    ):
        result = BatchResult.of_exception(3, error, JUDGE)
        assert result.whole
        assert not any(result.done(index) for index in range(3))
    with pytest.raises(ValueError, match="outside"):
        BatchResult.of_failures(2, {2: JUDGE(Own("x"))})


@pytest.mark.parametrize("judged", ["by the rules", "by one that fails"])
def test_an_execution_has_a_result_whatever_its_handler_raises(judged: str) -> None:
    def fails(batch: Batch) -> None:
        raise ValueError("java.lang.Error: " * 5000)

    def wrong(error: BaseException) -> Failure:
        raise RecursionError("too deep")

    batch = Batch((Record("t", 0, 0, None, None), Record("t", 0, 1, None, None)))
    judge = JUDGE if judged == "by the rules" else wrong
    result = InProcessExecutor(fails, judge=judge).submit(batch).wait(30)
    assert result is not None
    assert result.whole
    assert "ValueError" in result.failures[0].exception_class


def settled(
    batch: Batch, result: BatchResult, assignment: Assignment, **options: object
) -> tuple[object, Settler]:
    settings = Listener.model_validate({"topics": ("t",), "group_id": "g", **options})
    settler = Settler(settings)
    return settler.settle(batch, result, assignment), settler


def batch_of(assignment: Assignment, *offsets: int) -> Batch:
    owned = assignment.get(("t", 0))
    assert owned is not None
    for offset in offsets:
        owned.offsets.receive(offset)
    return Batch(tuple(Record("t", 0, o, None, None, epoch=owned.epoch) for o in offsets))


def test_results_of_a_former_assignment_count_for_nothing() -> None:
    assignment = Assignment()
    assignment.add(("t", 0), 0)
    old = batch_of(assignment, 0, 1)
    assignment.drop([("t", 0)])
    now = assignment.add(("t", 0), 0)
    now.offsets.receive(0)
    settlement, _ = settled(old, BatchResult.success(), assignment)
    assert settlement.succeeded == 0
    assert now.offsets.prefix == 0


def test_batches_are_halved_until_a_record_stands_alone_when_none_is_named() -> None:
    assignment = Assignment()
    assignment.add(("t", 0), 0)
    batch = batch_of(assignment, *range(9))
    failure = BatchResult.whole_failure(9, JUDGE(Own("x")))
    settlement, settler = settled(batch, failure, assignment, max_attempts=1, batch_size=9)
    assert settlement.given_up == []
    assert settler.limit == 4


def test_the_dependencys_own_wish_is_the_wait_when_it_says_one() -> None:
    assignment = Assignment()
    assignment.add(("t", 0), 0)
    batch = batch_of(assignment, 0)
    failure = BatchResult.whole_failure(1, JUDGE(RetriableError("busy", retry_after=17)))
    settlement, _ = settled(batch, failure, assignment)
    assert settlement.outage == 17
    counted, _ = settled(batch, failure, assignment, on_outage="dead-letter")
    assert counted.outage is None
    assert list(counted.delays.values()) == [17]


@pytest.mark.parametrize(("error", "wait"), [(RetriableError, 30), (BreakerOpen, 86_400)])
def test_a_wish_of_a_day_is_cut_to_the_longest_wait_unless_it_is_an_open_breakers(
    error: type[RetriableError], wait: float
) -> None:
    assignment = Assignment()
    assignment.add(("t", 0), 0)
    batch = batch_of(assignment, 0)
    failure = BatchResult.whole_failure(1, JUDGE(error("busy", retry_after=86_400)))
    settlement, _ = settled(batch, failure, assignment)
    assert settlement.outage == wait
    counted, _ = settled(batch, failure, assignment, on_outage="dead-letter")
    assert (counted.outage or max(counted.delays.values())) == wait


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"topics": ("t", "t-dlq")}, "own DLQ topic"),
        ({"handler": "a:b", "job": {"job_id": 1, "location": "x"}}, "not both"),
        ({"dlq_timeout": 300}, "dlq-timeout"),
        ({"retry": {"base": 40}}, "base"),
        ({"session_timeout": 301}, "session-timeout"),
        ({"max_attempts": 0}, "max-attempts|max_attempts"),
        ({"topics": ()}, "topics"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_configuration_is_read(
    options: dict[str, object], part: str
) -> None:
    with pytest.raises(ValueError, match=part):
        Listener.model_validate({"topics": ("t",), "group_id": "g", **options})


@pytest.mark.parametrize(("consumer", "wait"), [({"fetch-max-wait-ms": 1000}, 1000), ({}, 100)])
def test_the_configured_wait_of_a_fetch_reaches_the_client(
    monkeypatch: pytest.MonkeyPatch, consumer: dict[str, object], wait: int
) -> None:
    given: dict[str, object] = {}
    monkeypatch.setattr(member, "Consumer", given.update)
    document = {
        "kafka": {"bootstrap-servers": "localhost:1", "consumer": {"group-id": "g", **consumer}},
        "connector": {"topics": {"t": {**STREAM, "kafka-topic": "t"}}},
        "listener": {"topics": ["t"], "group-id": "own", "handler": "json:dumps"},
    }
    listener_for(parse_settings(json.dumps(document)))
    assert given["fetch.wait.max.ms"] == wait
