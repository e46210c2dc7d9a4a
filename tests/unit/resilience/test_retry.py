"""Attempts, waits and deadlines, with injected clocks."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.config.failures import FailureRule
from tidemark.config.stream import Processing
from tidemark.contract.backoff import Backoff
from tidemark.contract.errors import NonRetriableError, RetriableError, RetriesExhausted, ShutdownRequested
from tidemark.contract.failures import ErrorInfo, Link
from tidemark.resilience.classification import Classifier, classifier_for
from tidemark.resilience.decisions import COMMIT_BACKOFF
from tidemark.resilience.policy import RetryPolicy
from tidemark.resilience.retry import Attempt, Retrier, retrier_for


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.now += seconds
        return False


@pytest.fixture
def time() -> Time:
    return Time()


def retrier(time: Time, **given: Any) -> Retrier:
    limits = {"max_retries": 3, "deadline": 300.0, **given}
    classifier = limits.pop("classifier", Classifier())
    on_retry = limits.pop("on_retry", None)
    commits = RetryPolicy(COMMIT_BACKOFF, limits.pop("max_commit_retries", 15), limits["deadline"])
    return Retrier(
        RetryPolicy(**limits),
        commits,
        classifier=classifier,
        clock=time.clock,
        sleep=time.sleep,
        rng=random.Random(1),
        on_retry=on_retry,
    )


def failing(*errors: BaseException) -> Callable[[], str]:
    left = list(errors)

    def operation() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return operation


def always(error: BaseException) -> Callable[[], str]:
    return failing(*[error] * 1000)


@pytest.mark.guarantee("reliability: backoff and jitter")
@pytest.mark.parametrize(("failures", "low", "high"), [(1, 0.75, 1.25), (2, 1.5, 2.5), (3, 3.0, 5.0)])
def test_wait_doubles_within_its_band_when_attempts_fail(failures: int, low: float, high: float) -> None:
    waits = [Backoff().delay(failures, random.Random(seed).uniform) for seed in range(500)]
    assert low <= min(waits) < low * 1.05
    assert high * 0.95 < max(waits) <= high


@pytest.mark.guarantee("reliability: cap of 30 s")
@given(failures=st.integers(1, 10_000), seed=st.integers())
def test_wait_never_exceeds_the_cap_however_often_it_fails(failures: int, seed: int) -> None:
    assert 0.75 <= Backoff().delay(failures, random.Random(seed).uniform) <= 30


def test_waits_at_the_cap_differ_when_many_failed_together() -> None:
    waits = [Backoff().delay(9, random.Random(seed).uniform) for seed in range(1000)]
    assert len({round(wait, 6) for wait in waits}) > 990
    assert min(waits) >= 22.5


@pytest.mark.guarantee("reliability: three retries")
def test_three_retries_are_four_attempts(time: Time) -> None:
    calls: list[Attempt] = []
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time, on_retry=calls.append).call(always(ConnectionError("down")), step="append")
    assert caught.value.attempts == 4
    assert [attempt.number for attempt in calls] == [1, 2, 3]
    assert 5.25 <= sum(time.slept) <= 8.75
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert caught.value.error_info.classes == ("ConnectionError",)
    assert caught.value.decision.category == "NETWORK"
    assert "append failed 4 times" in str(caught.value)


def test_result_is_returned_when_a_later_attempt_succeeds(time: Time) -> None:
    assert retrier(time).call(failing(TimeoutError(), ConnectionError())) == "done"
    assert len(time.slept) == 2


def test_first_failure_is_the_last_when_no_retries_are_allowed(time: Time) -> None:
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time, max_retries=0).call(always(TimeoutError()))
    assert (caught.value.attempts, time.slept) == (1, [])


@pytest.mark.parametrize("error", [NonRetriableError("x"), PermissionError("x"), KeyError("x")])
def test_error_leaves_unchanged_when_it_is_not_retriable(time: Time, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        retrier(time).call(failing(error))
    assert caught.value is error
    assert time.slept == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_end_of_the_process_is_never_caught(time: Time, error: BaseException) -> None:
    with pytest.raises(type(error)):
        retrier(time).call(failing(error))


def test_deadline_ends_it_when_the_next_wait_would_pass_it(time: Time) -> None:
    with pytest.raises(RetriesExhausted, match="deadline of 10 s") as caught:
        retrier(time, max_retries=100, deadline=10).call(always(TimeoutError()))
    assert caught.value.attempts == 4
    assert time.now - 100 <= 10


def test_time_spent_in_the_operation_counts_for_the_deadline(time: Time) -> None:
    def slow() -> str:
        time.now += 7
        raise TimeoutError

    with pytest.raises(RetriesExhausted) as caught:
        retrier(time, max_retries=100, deadline=10).call(slow)
    assert caught.value.attempts == 2


@pytest.mark.parametrize(("asked", "waited"), [(12, 12), (500, 30)])
def test_wait_the_other_side_asks_for_is_a_floor_within_the_cap(
    time: Time, asked: float, waited: float
) -> None:
    retrier(time).call(failing(RetriableError("busy", retry_after=asked)))
    assert time.slept == [waited]


def test_alternating_errors_do_not_start_the_count_again(time: Time) -> None:
    errors = [TimeoutError(), OSError(5, "io"), ConnectionError(), OSError(5, "io"), TimeoutError()]
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time).call(failing(*errors))
    assert caught.value.attempts == 4
    assert time.slept == sorted(time.slept)


def test_rule_brings_retries_of_its_own(time: Time) -> None:
    configured = FailureRule.model_validate(
        {
            "name": "mine",
            "action": "RETRY",
            "message": "odd",
            "max-retries": 1,
            "backoff": {"base": 8, "jitter": 0},
        }
    )
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time, classifier=classifier_for([configured], plug_ins=())).call(always(RuntimeError("odd")))
    assert (caught.value.attempts, time.slept) == (2, [8.0])


def test_shutdown_ends_the_wait_at_once_and_is_no_exhaustion(time: Time) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(ShutdownRequested) as caught:
        replace(retrier(time), sleep=stop.wait).call(always(TimeoutError()))
    assert isinstance(caught.value.__cause__, TimeoutError)


class Conflict(Exception):
    def __str__(self) -> str:
        return "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] files were added SQLSTATE: 2D521"


@pytest.mark.guarantee("case: ops-01", "fault tolerance: the commit conflicts: from 100 ms, 15 times")
def test_conflicts_of_a_commit_are_retried_fifteen_times_from_100_ms(time: Time) -> None:
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time, deadline=1e6).call(always(Conflict()))
    assert caught.value.attempts == 16
    assert 0.075 <= time.slept[0] <= 0.125
    assert max(time.slept) <= 30
    assert not caught.value.decision.counts_for_breaker


@pytest.mark.guarantee("fault tolerance: other errors leave that loop")
def test_other_errors_are_not_counted_as_conflicts_of_a_commit(time: Time) -> None:
    conflicts = [Conflict()] * 5
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time).call(failing(*conflicts, *[TimeoutError()] * 4))
    assert caught.value.attempts == 9
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert 0.75 <= time.slept[5] <= 1.25, "nor do they wait as long as after five conflicts"
    assert retrier(time).call(failing(*[TimeoutError()] * 3, *conflicts)) == "done"


def test_conflicts_that_are_used_up_are_not_retried_as_another_failure(time: Time) -> None:
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time, max_commit_retries=2).call(always(Conflict()))
    assert caught.value.attempts == 3


def test_an_exhausted_step_is_not_retried_by_a_retrier_around_it(time: Time) -> None:
    with pytest.raises(RetriesExhausted) as caught:
        retrier(time).call(lambda: retrier(time, max_retries=1).call(always(TimeoutError())))
    assert caught.value.attempts == 2


class HookFailed(Exception):
    def __str__(self) -> str:
        return "[DELTA_POST_COMMIT_HOOK_FAILED] committed version 7, but post commit hook failed"


def test_an_error_after_the_work_was_done_leaves_at_once_for_the_log_to_decide(time: Time) -> None:
    with pytest.raises(HookFailed):
        retrier(time).call(always(HookFailed()))
    assert time.slept == []


def test_exhaustion_survives_pickling() -> None:
    error = RetriesExhausted("x", attempts=4, error_info=ErrorInfo((Link("A", "b"),)))
    again = pickle.loads(pickle.dumps(error))
    assert (again.attempts, again.error_info, again.decision) == (4, error.error_info, error.decision)


def test_retrier_of_a_stream_follows_its_configuration_and_pickles() -> None:
    made = retrier_for(Processing(max_retries=7, max_commit_retries=9, retry_deadline=42), Classifier())
    assert (made.policy.max_retries, made.policy.deadline) == (7, 42)
    assert (made.commits.max_retries, made.commits.deadline) == (9, 42)
    assert pickle.loads(pickle.dumps(made)) == made
