"""Attempts of one step of the batch, with backoff between (`reliability-guarantees.md`, Retry Mechanisms)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from tidemark.contract.errors import NonRetriableError, RestartStream

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

_BASE_S = 1.0
_CAP_S = 30.0
_JITTER = 0.25


@dataclass(frozen=True)
class Retry:
    """`max_retries` 3 are 4 attempts, within `deadline` seconds. What a person must mend is not retried."""

    max_retries: int = 3
    deadline: float = 300.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    rng: random.Random | None = None

    def __call__(self, what: str, operation: Callable[[], Result]) -> Result:
        began, attempt = self.clock(), 0
        while True:
            attempt += 1
            try:
                return operation()
            except (NonRetriableError, RestartStream):
                raise
            except Exception as error:
                pause = self.pause(attempt)
                if attempt > self.max_retries or self.clock() - began + pause > self.deadline:
                    raise
                log.warning(
                    "retrying", step=what, attempt=attempt, pause_s=round(pause, 2), error=_first_line(error)
                )
                self.sleep(pause)

    def pause(self, attempt: int) -> float:
        """Seconds before the attempt after this one: 1, 2, 4 … up to 30, give or take a quarter."""
        raw = min(_CAP_S, _BASE_S * 2.0 ** (attempt - 1))
        uniform = (self.rng or random).uniform
        return uniform(raw * (1 - _JITTER), min(_CAP_S, raw * (1 + _JITTER)))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
