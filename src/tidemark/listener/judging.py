"""Takes down what an exception says about itself: how far it reaches and whether it may heal."""

from __future__ import annotations

import random
from collections.abc import Callable

from tidemark.config.listener import RetryBackoff
from tidemark.contract.errors import NonRetriableError, RetriableError, TidemarkError
from tidemark.listener.failure import Failure, Scope


def judge(error: BaseException) -> Failure:
    """What a handler raised. `NonRetriableError` stops the listener, `RetriableError` waits for a dependency,
    and so do broken connections and timeouts; anything else counts against the record.
    """
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    transient = isinstance(error, RetriableError | ConnectionError | TimeoutError)
    process = isinstance(error, NonRetriableError)
    return Failure(
        exception_class=class_name(error),
        message=error.message if isinstance(error, TidemarkError) else str(error) or type(error).__name__,
        scope=Scope.PROCESS if process else Scope.DEPENDENCY if transient else Scope.RECORD,
        retry_after=error.retry_after if isinstance(error, RetriableError) else None,
        cause_class=None if cause is None else class_name(cause),
        condition=error.condition if isinstance(error, TidemarkError) else None,
    )


def class_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def backoff_of(
    settings: RetryBackoff, *, uniform: Callable[[float, float], float] = random.uniform
) -> Callable[[int], float]:
    """Seconds to wait after the n-th failure, n from 1; spread, and never above the cap."""

    def wait(failures: int) -> float:
        raw = min(settings.cap, settings.base * 2.0 ** min(failures - 1, 60))
        return uniform(raw * (1 - settings.jitter), min(settings.cap, raw * (1 + settings.jitter)))

    return wait
