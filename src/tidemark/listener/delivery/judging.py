"""What a handler's exception means to the listener, and how long it waits before the next attempt."""

from __future__ import annotations

import random
from collections.abc import Callable

from tidemark.config.listener import RetryBackoff
from tidemark.contract.backoff import Backoff
from tidemark.contract.errors import BreakerOpen
from tidemark.contract.failures import UNCLASSIFIED, Scope
from tidemark.listener.delivery.failure import Failure
from tidemark.listener.executor import Judge
from tidemark.resilience.classification import Classifier
from tidemark.resilience.error_info import error_info_of


def judge_with(classifier: Classifier) -> Judge:
    """Reads an exception by the rules that the pipeline uses too, with two differences.

    What no rule knows counts against the record: the handler is somebody's own code. And a bad record is
    tried `max-attempts` times like any other, for that is the listener's exit condition.
    """

    def judge(error: BaseException) -> Failure:
        error_info = error_info_of(error)
        decision = classifier.classify(error)
        scope = Scope.RECORD if decision == UNCLASSIFIED else None
        return Failure.of(error_info, decision, scope=scope, deferred=isinstance(error, BreakerOpen))

    return judge


def backoff_of(
    settings: RetryBackoff, *, uniform: Callable[[float, float], float] = random.uniform
) -> Callable[[int], float]:
    """Seconds to wait after the n-th failure, n from 1."""
    backoff = Backoff(base=settings.base, cap=settings.cap, jitter=settings.jitter)
    return lambda failures: backoff.delay(failures, uniform)
