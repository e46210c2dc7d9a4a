"""Writes to the archive behind its circuit breaker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidemark.contract.errors import BreakerOpen, NonRetriableError
from tidemark.contract.failures import Scope
from tidemark.resilience.breaker import Breaker
from tidemark.resilience.classification import Classifier

BREAKER = "reports/archive"


class Guard(Protocol):
    def __call__(self, write: Callable[[], str], /) -> str: ...


class ArchiveRefused(NonRetriableError):
    """The archive is not ours to write: credentials, a missing bucket. It would refuse every report."""

    condition = "TIDEMARK_ARCHIVE_REFUSED"


class ArchiveGuard:
    """Each write is one operation. Raises `BreakerOpen` without trying, `ArchiveRefused` where a person
    must act, and otherwise what the write raised.
    """

    def __init__(self, breaker: Breaker, *, classifier: Classifier | None = None) -> None:
        self._breaker = breaker
        self._classifier = classifier or Classifier()

    def __call__(self, write: Callable[[], str], /) -> str:
        try:
            return self._breaker.call(write)
        except BreakerOpen:
            raise
        except Exception as error:
            if self._classifier.classify(error).scope is Scope.PROCESS:
                raise ArchiveRefused(
                    f"the archive refuses reports: {error}",
                    hint="fix `reports.archive`, then start the worker again",
                ) from error
            raise
