"""`Retrier`: repeats one step while a retry may help (`reliability-guarantees.md`, Retry Mechanisms).

The only loop of retries around a step. A breaker goes around a retrier, never inside it: it counts operations.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from tidemark.config.stream import Processing
from tidemark.contract.errors import RetriesExhausted, ShutdownRequested
from tidemark.contract.failures import Action, Decision, ErrorInfo
from tidemark.resilience.classification import Classifier
from tidemark.resilience.decisions import COMMIT_BACKOFF
from tidemark.resilience.error_info import error_info_of
from tidemark.resilience.policy import RetryPolicy

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

Sleep = Callable[[float], bool]
"""Waits that many seconds; true if it was interrupted. `threading.Event.wait` is one."""


def sleep_through(seconds: float) -> bool:
    """Waits without being interruptible."""
    time.sleep(seconds)
    return False


_POLICY = RetryPolicy(max_retries=3, deadline=300.0)
_COMMITS = RetryPolicy(COMMIT_BACKOFF, max_retries=15, deadline=300.0)
_OF_THIS_PROCESS = ("clock", "sleep", "rng", "on_retry")


@dataclass(frozen=True)
class Attempt:
    """A failed attempt that will be repeated after `delay` seconds. `number` counts from 1."""

    step: str
    number: int
    delay: float
    decision: Decision
    error_info: ErrorInfo


@dataclass(frozen=True)
class Retrier:
    """Repeats failures that the classifier calls retriable; any other leaves at once, unchanged.

    `policy` counts all failures together, so that alternating errors end too. Two kinds are counted apart: conflicts
    with another commit, by `commits` (`fault-tolerance.md`, Handle Concurrent Writes), and those of a rule with a
    `max_retries`. Pickles with the defaults of what belongs to this process: clock, sleep, random source and
    `on_retry`.
    """

    policy: RetryPolicy = _POLICY
    commits: RetryPolicy = _COMMITS
    classifier: Classifier = field(default_factory=Classifier)
    clock: Callable[[], float] = time.monotonic
    sleep: Sleep = sleep_through
    rng: random.Random | None = None
    on_retry: Callable[[Attempt], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**vars(Retrier()), **state}.items():
            object.__setattr__(self, name, value)

    def call(self, operation: Callable[[], Result], *, step: str = "step") -> Result:
        """Returns what `operation` returns.

        Raises RetriesExhausted from the last error when its policy gives up, ShutdownRequested from it when a wait is
        interrupted, and an error that is not retriable as it is. Never catches KeyboardInterrupt or SystemExit.
        """
        began = self.clock()
        failures: Counter[str] = Counter()
        uniform = self.rng.uniform if self.rng is not None else random.uniform
        while True:
            try:
                return operation()
            except (RetriesExhausted, ShutdownRequested):
                raise
            except Exception as error:
                error_info = error_info_of(error)
                decision = self.classifier.classify(error_info)
                if not decision.retriable:
                    raise
                counted_as, policy = self._policy_for(decision)
                failures[counted_as] += 1
                delay = policy.delay(
                    failures[counted_as],
                    retry_after=error_info.retry_after,
                    elapsed=self.clock() - began,
                    uniform=uniform,
                )
                if delay is None:
                    late = failures[counted_as] <= (policy.max_retries or 0)
                    raise _exhausted(
                        Attempt(step, failures.total(), 0, decision, error_info),
                        policy.deadline if late else None,
                    ) from error
                self._wait(Attempt(step, failures.total(), delay, decision, error_info), error)

    def _policy_for(self, decision: Decision) -> tuple[str, RetryPolicy]:
        """The policy that a failure follows, and the name under which it is counted."""
        name, policy = "", self.policy
        if decision.action is Action.RETRY_OP:
            name, policy = "commit", self.commits
        if decision.max_retries is not None:
            name, policy = decision.rule, replace(policy, max_retries=decision.max_retries)
        return name, replace(policy, backoff=decision.backoff or policy.backoff)

    def _wait(self, attempt: Attempt, error: Exception) -> None:
        log.warning(
            "retrying",
            step=attempt.step,
            attempt=attempt.number,
            delay_s=round(attempt.delay, 3),
            category=attempt.decision.category,
            rule=attempt.decision.rule,
            error=attempt.error_info.summary,
        )
        if self.on_retry is not None:
            self.on_retry(attempt)
        if self.sleep(attempt.delay):
            raise ShutdownRequested(
                f"{attempt.step} was to be tried again, but the process is ending"
            ) from error


def _exhausted(last: Attempt, deadline: float | None) -> RetriesExhausted:
    """`deadline`: in seconds, if the deadline ended the retries."""
    why = "no retry is left"
    if deadline is not None:
        why = f"its deadline of {deadline:g} s leaves no time for another"
    times = f"{last.number} time{'s' if last.number > 1 else ''}"
    return RetriesExhausted(
        f"{last.step} failed {times} and {why}; last: {last.error_info.summary}",
        "see docs/failures.md, What happens when retries are used up",
        attempts=last.number,
        error_info=last.error_info,
        decision=last.decision,
    )


def retrier_for(
    processing: Processing,
    classifier: Classifier,
    *,
    sleep: Sleep = sleep_through,
    on_retry: Callable[[Attempt], None] | None = None,
) -> Retrier:
    """The retrier of a stream, by its `max-retries`, `max-commit-retries` and `retry-deadline`."""
    deadline = processing.retry_deadline
    return Retrier(
        policy=RetryPolicy(max_retries=processing.max_retries, deadline=deadline),
        commits=RetryPolicy(COMMIT_BACKOFF, max_retries=processing.max_commit_retries, deadline=deadline),
        classifier=classifier,
        sleep=sleep,
        on_retry=on_retry,
    )
