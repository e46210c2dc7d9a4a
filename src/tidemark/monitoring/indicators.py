"""The health indicators, over plain values or a probe that raises where its dependency does not answer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidemark.monitoring.health import Check, Finding, Health
from tidemark.monitoring.metrics import Metrics

KAFKA, STORAGE, DELTA_WRITE = "kafka", "storage", "delta-write"
BREAKERS, DLQ_RATE, FRESHNESS, STARTED = "breakers", "dlq-rate", "streams", "started"

Probe = Callable[[], Mapping[str, object]]


def reachable(probe: Probe) -> Check:
    """UP with the probe's details; DOWN where it raises."""
    return lambda: Finding(Health.UP, dict(probe()))


def breakers(states: Callable[[], Mapping[str, str]]) -> Check:
    """DEGRADED while one is not CLOSED: its destination is not used, the rest works."""

    def check() -> Finding:
        found = dict(states())
        shut = all(state == "CLOSED" for state in found.values())
        return Finding(Health.UP if shut else Health.DEGRADED, found)

    return check


def processed(metrics: Metrics) -> tuple[float, float]:
    """Records read and rejected by this process."""
    read = metrics.total("tidemark_records_read_total")
    return read, metrics.total("tidemark_records_processed_total", route="rejected")


@dataclass
class DeadLetterRate:
    """The share of rejected records within `window` seconds. DEGRADED above `most`, where at least `least` records
    were read. `totals`: records ever read and rejected; `since_start` if both began at 0 with this process.
    """

    totals: Callable[[], tuple[float, float]]
    most: float
    since_start: bool = True
    window: float = 300.0
    least: int = 20
    clock: Callable[[], float] = time.monotonic
    _looks: deque[tuple[float, float, float]] = field(default_factory=deque)

    def __call__(self) -> Finding:
        now = self.clock()
        read, rejected = self.totals()
        self._looks.append((now, read, rejected))
        while len(self._looks) > 1 and self._looks[1][0] <= now - self.window:
            self._looks.popleft()
        _, read_before, rejected_before = self._looks[0]
        if len(self._looks) == 1 and self.since_start:
            read_before = rejected_before = 0.0
        records, bad = max(0.0, read - read_before), max(0.0, rejected - rejected_before)
        share = bad / records if records else 0.0
        details = {"records": int(records), "rejected": int(bad), "share": round(share, 4), "most": self.most}
        return Finding(Health.DEGRADED if records >= self.least and share > self.most else Health.UP, details)


@dataclass(frozen=True)
class StreamInfo:
    """Inputs of freshness. `lag` and `commit_age` (seconds) are None where they are not known (yet)."""

    running: bool | None
    lag: int | None
    commit_age: float | None
    problem: str | None = None


def freshness(streams: Callable[[], Mapping[str, StreamInfo]], *, stale_after: float) -> Check:
    """DOWN where records wait and nothing was committed for `stale_after` seconds, or where a stream has failed.
    An idle stream is not stale.
    """

    def check() -> Finding:
        found = dict(streams())
        details: dict[str, object] = {}
        for name, facts in found.items():
            details[name] = {
                "state": _state(facts, stale_after),
                "lag": facts.lag,
                "lastCommitAgeSeconds": None if facts.commit_age is None else round(facts.commit_age, 1),
                **({"problem": facts.problem} if facts.problem else {}),
            }
        return Finding(_worst(_state(f, stale_after) for f in found.values()), details)

    return check


def delta_write(outcomes: Callable[[], Mapping[str, str | None]]) -> Check:
    """Whether each stream's newest write succeeded. `outcomes`: stream → its error, or None."""

    def check() -> Finding:
        found = dict(outcomes())
        failed = {name: why for name, why in found.items() if why is not None}
        return Finding(Health.DOWN if failed else Health.UP, failed or {"streams": len(found)})

    return check


def started(waiting: Callable[[], Sequence[str] | None]) -> Check:
    """DOWN until every stream has started reading."""

    def check() -> Finding:
        left = waiting()
        if left is None:
            return Finding(Health.DOWN, {"waiting": "the streams are not known yet"})
        return Finding(Health.DOWN if left else Health.UP, {"waiting": list(left)} if left else {})

    return check


def _state(facts: StreamInfo, stale_after: float) -> str:
    if facts.running is False:
        return "STOPPED"
    if facts.lag is None:
        return "UNKNOWN"
    if facts.lag > 0 and (facts.commit_age is None or facts.commit_age > stale_after):
        return "STALE"
    return "FRESH"


def _worst(states: Iterable[str]) -> Health:
    found = set(states)
    if found & {"STALE", "STOPPED"}:
        return Health.DOWN
    return Health.UNKNOWN if "UNKNOWN" in found else Health.UP
