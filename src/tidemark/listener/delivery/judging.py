"""Classification of a handler's exceptions, and the policy by which the listener tries again."""

from __future__ import annotations

from tidemark.config.listener import RetryBackoff
from tidemark.contract.backoff import Backoff
from tidemark.contract.errors import BreakerOpen
from tidemark.contract.failures import UNCLASSIFIED, Scope
from tidemark.listener.delivery.failure import Failure
from tidemark.listener.executor import Judge
from tidemark.resilience.classification import Classifier
from tidemark.resilience.error_info import error_info_of
from tidemark.resilience.policy import RetryPolicy


def judge_with(classifier: Classifier) -> Judge:
    """Classifies an exception by the rules of the main job, with two differences.

    An error that no rule knows counts against the record, because the handler is the user's own code. A bad record is
    tried `max-attempts` times like any other, because that is the listener's exit condition.
    """

    def judge(error: BaseException) -> Failure:
        error_info = error_info_of(error)
        decision = classifier.classify(error)
        scope = Scope.RECORD if decision == UNCLASSIFIED else None
        return Failure.of(error_info, decision, scope=scope, deferred=isinstance(error, BreakerOpen))

    return judge


def policy_of(settings: RetryBackoff, *, attempts: int | None = None) -> RetryPolicy:
    """The configured waits, given up after so many attempts; None: never."""
    backoff = Backoff(base=settings.base, cap=settings.cap, jitter=settings.jitter)
    return RetryPolicy(backoff, max_retries=None if attempts is None else attempts - 1)
