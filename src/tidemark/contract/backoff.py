"""Exponential backoff: the wait before the next attempt."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Seconds before attempt n + 1: `base * factor^(n-1)`, spread by `jitter` either way, at most `cap`.

    At the cap the wait is drawn from below it, so that writers that failed together do not retry together.
    """

    base: float = 1.0
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 0.25

    def raw(self, failures: int) -> float:
        """The wait before jitter; `failures` counts from 1."""
        return min(self.cap, self.base * self.factor ** min(max(failures, 1) - 1, 64))

    def delay(
        self,
        failures: int,
        uniform: Callable[[float, float], float] = random.uniform,
        *,
        retry_after: float | None = None,
    ) -> float:
        """The wait in seconds. `retry_after`, as requested by the other side, is a minimum within the cap."""
        raw = self.raw(failures)
        spread = uniform(raw * (1 - self.jitter), min(self.cap, raw * (1 + self.jitter)))
        return max(spread, min(retry_after or 0.0, self.cap))
