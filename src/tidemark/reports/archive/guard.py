"""Writes to the archive behind its circuit breaker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemark.contract.errors import BreakerOpen, NonRetriableError
from tidemark.contract.failures import Scope
from tidemark.resilience.breaker import Breaker
from tidemark.resilience.classification import Classifier

BREAKER = "reports/archive"
_CLASSIFIER = Classifier()


class ArchiveRefused(NonRetriableError):
    """The archive refuses every report: wrong credentials, a missing bucket."""

    condition = "TIDEMARK_ARCHIVE_REFUSED"


@dataclass(frozen=True)
class ArchiveGuard:
    """Each write is one operation. Raises `BreakerOpen` without trying, `ArchiveRefused` where a person
    must act, and otherwise the write's own error.
    """

    breaker: Breaker

    def __call__(self, write: Callable[[], str]) -> str:
        try:
            return self.breaker.call(write)
        except BreakerOpen:
            raise
        except Exception as error:
            if _CLASSIFIER.classify(error).scope is Scope.PROCESS:
                raise ArchiveRefused(
                    f"the archive refuses reports: {error}",
                    hint="fix `reports.archive`, then start the worker again",
                ) from error
            raise
