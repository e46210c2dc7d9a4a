"""Health for the actuator endpoints: indicators, each UP, DEGRADED, DOWN or UNKNOWN, and the overall health.

`reliability-guarantees.md` (Health Checks) and `kafka-native-idempotency.md` (KafkaNativeHealthIndicator)
name the indicators. Liveness uses none: an unavailable dependency is not a reason to kill the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import structlog

from tidemark.config.redaction import masked_text

log = structlog.get_logger(__name__)


class Health(StrEnum):
    UP = "UP"
    DEGRADED = "DEGRADED"
    UNKNOWN = "UNKNOWN"
    DOWN = "DOWN"


_ORDER = (Health.UP, Health.UNKNOWN, Health.DEGRADED, Health.DOWN)
HTTP_STATUS = {Health.UP: 200, Health.UNKNOWN: 200, Health.DEGRADED: 200, Health.DOWN: 503}


@dataclass(frozen=True)
class Finding:
    """The result of one indicator. `details` hold numbers, names and messages, never a secret or a payload."""

    status: Health
    details: Mapping[str, object] = field(default_factory=dict)


Check = Callable[[], Finding]


@dataclass
class _Known:
    finding: Finding
    at: float


class HealthBoard:
    """Runs each check in a thread of its own, at most once in `keep` seconds, and waits `answer_within` for it.

    A check that hangs is `UNKNOWN` until it answers, and is not started again meanwhile, so that the board never
    hangs with a dependency. A check that raises is DOWN.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        *,
        ready: tuple[str, ...] = (),
        keep: float = 5.0,
        answer_within: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checks = dict(checks)
        self._ready = ready
        self._keep, self._answer_within, self._clock = keep, answer_within, clock
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._running: dict[str, threading.Thread] = {}

    @property
    def names(self) -> list[str]:
        return list(self._checks)

    def add(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def findings(self, names: tuple[str, ...] | None = None) -> dict[str, Finding]:
        """The findings of all indicators, or of those named; none is older than `keep` seconds."""
        asked = [n for n in self._checks if names is None or n in names]
        started = [thread for name in asked if (thread := self._start(name)) is not None]
        deadline = time.monotonic() + self._answer_within
        for thread in started:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            return {name: self._finding(name) for name in asked}

    def readiness(self) -> tuple[Health, dict[str, Finding]]:
        """UP where the process can work now. Only the indicators in `ready` count."""
        found = self.findings(self._ready)
        return overall(found), found

    def _start(self, name: str) -> threading.Thread | None:
        with self._lock:
            running = self._running.get(name)
            if running is not None and running.is_alive():
                return running
            known = self._known.get(name)
            if known is not None and self._clock() - known.at < self._keep:
                return None
            thread = threading.Thread(target=self._run, args=(name,), daemon=True, name=f"health-{name}")
            self._running[name] = thread
            thread.start()
            return thread

    def _run(self, name: str) -> None:
        try:
            finding = self._checks[name]()
        except Exception as error:
            log.debug("health check failed", indicator=name, error=str(error))
            finding = Finding(Health.DOWN, {"error": _summary(error)})
        with self._lock:
            self._known[name] = _Known(finding, self._clock())

    def _finding(self, name: str) -> Finding:
        running, known = self._running.get(name), self._known.get(name)
        if running is not None and running.is_alive():
            return Finding(Health.UNKNOWN, {"error": f"no answer within {self._answer_within:g} s"})
        return known.finding if known is not None else Finding(Health.UNKNOWN)


def overall(findings: Mapping[str, Finding]) -> Health:
    """The worst of them; UP where there is none."""
    return max((f.status for f in findings.values()), key=_ORDER.index, default=Health.UP)


def _summary(error: Exception) -> str:
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return masked_text(str(text)).splitlines()[0][:300]
