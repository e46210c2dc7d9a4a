"""`Retrier`: one step, tried again while that may help (`reliability-guarantees.md`, Retry Mechanisms).

Retry at one layer only. A breaker goes around a retrier, never inside it: it counts operations.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

import structlog

from tidemark.config.stream import Processing
from tidemark.contract.backoff import Backoff
from tidemark.contract.errors import RetriesExhausted, ShutdownRequested
from tidemark.contract.failures import Action, Decision, ErrorInfo
from tidemark.resilience.classification import Classifier
from tidemark.resilience.decisions import COMMIT_BACKOFF
from tidemark.resilience.error_info import error_info_of

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

Sleep = Callable[[float], bool]
"""Waits that many seconds; true if it was interrupted. `threading.Event.wait` is one."""


def sleep_through(seconds: float) -> bool:
    """Waits without being interruptible."""
    time.sleep(seconds)
    return False


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
    """`max_retries` 3 are 4 attempts, all of them and the waits within `deadline` seconds.

    Only failures whose action is in `actions` are repeated; anything else leaves at once as it came.
    Retries are counted together, whatever failed, so that alternating errors cannot go on for ever;
    a rule with retries of its own has a counter of its own. Pickles with the defaults of what belongs to
    this process: clock, sleep, random source and `on_retry`.
    """

    backoff: Backoff = field(default_factory=Backoff)
    max_retries: int = 3
    deadline: float = 300.0
    classifier: Classifier = field(default_factory=Classifier)
    actions: frozenset[Action] = frozenset({Action.RETRY, Action.RETRY_OP})
    clock: Callable[[], float] = time.monotonic
    sleep: Sleep = sleep_through
    rng: random.Random | None = None
    on_retry: Callable[[Attempt], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**vars(Retrier()), **state}.items():
            object.__setattr__(self, name, value)

    def call(
        self,
        operation: Callable[[], Result],
        *,
        step: str = "step",
        done: Callable[[BaseException], Result] | None = None,
    ) -> Result:
        """What `operation` returns, once it does.

        `done` gives the result where an error says that the work is done (TREAT_AS_SUCCESS); without
        it such an error is raised. Raises RetriesExhausted from the last error when retries or
        deadline are used up, ShutdownRequested from it when a wait is interrupted, and errors that
        are not to be retried unchanged. Never catches KeyboardInterrupt or SystemExit.
        """
        began, number = self.clock(), 0
        used: Counter[str] = Counter()
        while True:
            number += 1
            try:
                return operation()
            except (RetriesExhausted, ShutdownRequested):
                raise
            except Exception as error:
                error_info = error_info_of(error)
                decision = self.classifier.classify(error_info)
                if decision.action is Action.TREAT_AS_SUCCESS and done is not None:
                    log.error(
                        "done, with an error after it",
                        step=step,
                        rule=decision.rule,
                        error=error_info.summary,
                    )
                    return done(error)
                if decision.action not in self.actions:
                    raise
                counter = decision.rule if decision.max_retries is not None else ""
                limit = self.max_retries if decision.max_retries is None else decision.max_retries
                if used[counter] >= limit:
                    self._exhausted(step, number, error_info, decision, error)
                used[counter] += 1
                delay = self._delay(used, decision, error_info)
                if self.clock() - began + delay > self.deadline:
                    self._exhausted(step, number, error_info, decision, error, late=True)
                self._wait(Attempt(step, number, delay, decision, error_info), error)

    def _delay(self, used: Counter[str], decision: Decision, error_info: ErrorInfo) -> float:
        failures = used[decision.rule] if decision.max_retries is not None else used.total()
        backoff = decision.backoff or self.backoff
        uniform = self.rng.uniform if self.rng is not None else random.uniform
        return backoff.delay(failures, uniform, retry_after=error_info.retry_after)

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

    def _exhausted(
        self,
        step: str,
        attempts: int,
        error_info: ErrorInfo,
        decision: Decision,
        error: Exception,
        *,
        late: bool = False,
    ) -> NoReturn:
        why = (
            f"its deadline of {self.deadline:g} s leaves no time for another" if late else "no retry is left"
        )
        raise RetriesExhausted(
            f"{step} failed {attempts} time{'s' if attempts > 1 else ''} and {why}; last: {error_info.summary}",
            "see docs/failures.md, What happens when retries are used up",
            attempts=attempts,
            error_info=error_info,
            decision=decision,
        ) from error

    def for_commits(self, max_commit_retries: int = 15) -> Retrier:
        """The loop around one Delta commit (`fault-tolerance.md`, Handle Concurrent Writes).

        Repeats the whole operation after a conflict, from 100 ms, doubled, up to 30 s. Every other
        error leaves it at once, for the retrier around it to judge.
        """
        return replace(
            self,
            backoff=COMMIT_BACKOFF,
            max_retries=max_commit_retries,
            actions=frozenset({Action.RETRY_OP}),
        )


def retrier_for(
    processing: Processing,
    classifier: Classifier,
    *,
    sleep: Sleep = sleep_through,
    on_retry: Callable[[Attempt], None] | None = None,
) -> Retrier:
    """The retrier of a stream, by its `max-retries` and `retry-deadline`."""
    return Retrier(
        max_retries=processing.max_retries,
        deadline=processing.retry_deadline,
        classifier=classifier,
        sleep=sleep,
        on_retry=on_retry,
    )
