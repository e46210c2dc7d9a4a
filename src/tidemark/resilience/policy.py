"""`RetryPolicy`: when a failed operation is tried again, after which wait, and when it is given up."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tidemark.contract.backoff import Backoff


@dataclass(frozen=True)
class RetryPolicy:
    """`max_retries` 3 are 4 attempts; None sets no limit. `deadline`: seconds for all attempts and waits together."""

    backoff: Backoff = field(default_factory=Backoff)
    max_retries: int | None = None
    deadline: float = math.inf

    def delay(
        self,
        failures: int,
        *,
        retry_after: float | None = None,
        elapsed: float = 0.0,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> float | None:
        """Seconds until the next attempt after so many failures (from 1), or None to give up.

        `retry_after`, the wait that the other side asked for, is a lower bound, up to the backoff's cap.
        """
        if self.max_retries is not None and failures > self.max_retries:
            return None
        delay = self.backoff.delay(failures, uniform, retry_after=retry_after)
        return delay if elapsed + delay <= self.deadline else None
