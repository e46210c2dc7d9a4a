"""The metrics of a listener, and the endpoints that export them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tidemark.config.settings import Settings
from tidemark.listener.delivery.batch import Partition
from tidemark.monitoring import indicators
from tidemark.monitoring.endpoints import endpoints
from tidemark.monitoring.health import Finding, Health, HealthBoard
from tidemark.monitoring.metrics import Metrics
from tidemark.resilience.breaker import StateChange
from tidemark.resilience.breakers import Breakers
from tidemark.source.topics import KafkaAdmin

STALE_AFTER = 60.0
"""Seconds without a turn of its loop after which a listener is unhealthy; the loop turns five times a second."""
OUTCOMES = ("done", "failed", "dead-lettered")


class Meter:
    """Counts one group's work in `metrics`. Called from the listener's thread; does no I/O."""

    def __init__(self, metrics: Metrics, group: str) -> None:
        self._metrics, self._group = metrics, group
        self._lags: set[Partition] = set()
        for outcome in OUTCOMES:
            metrics.add("tidemark_listener_records_total", 0, group=group, outcome=outcome)
        metrics.add("tidemark_listener_rewinds_total", 0, group=group)

    def executed(self, seconds: float) -> None:
        self._metrics.observe("tidemark_listener_execution_seconds", seconds, group=self._group)

    def counted(self, outcome: str, records: int) -> None:
        """`outcome`: one of OUTCOMES."""
        if records:
            self._metrics.add("tidemark_listener_records_total", records, group=self._group, outcome=outcome)

    def rewound(self) -> None:
        self._metrics.add("tidemark_listener_rewinds_total", group=self._group)

    def lag(self, lags: Mapping[Partition, int]) -> None:
        """Sets the lag of the partitions that are assigned now, and removes that of the others."""
        gauge = self._metrics.of("tidemark_listener_lag_records")
        for topic, partition in self._lags - lags.keys():
            gauge.remove(self._group, topic, str(partition))
        self._lags = set(lags)
        for (topic, partition), records in lags.items():
            gauge.labels(self._group, topic, str(partition)).set(records)


class BreakerMetrics:
    """A listener of breakers that keeps their two metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __call__(self, change: StateChange) -> None:
        self._metrics.breaker(change.name, change.new)
        self._metrics.add("tidemark_breaker_changes_total", breaker=change.name, state=change.new)


@contextmanager
def watched(
    settings: Settings,
    metrics: Metrics,
    heartbeat: Callable[[], float],
    *,
    breakers: Breakers | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[str | None]:
    """Serves `/actuator/…` of a listener within the `with`, if `metrics.enabled`; yields its URL.

    Health: `listener` (its loop turns), `kafka` (the broker answers, decides readiness), `breakers`.
    """
    with ExitStack() as running:
        url = None
        if settings.metrics.enabled:
            admin = KafkaAdmin(settings.kafka, timeout=2.5)
            known = breakers or Breakers.of(settings)
            for breaker in known.snapshots():
                metrics.breaker(breaker.name, breaker.state.value)
            board = HealthBoard(
                {
                    "listener": lambda: _turning(monotonic() - heartbeat()),
                    indicators.KAFKA: indicators.reachable(lambda: _broker(settings, admin)),
                    indicators.BREAKERS: indicators.breakers(
                        lambda: {b.name: b.state.value for b in known.snapshots()}
                    ),
                },
                ready=(indicators.KAFKA,),
            )
            url = running.enter_context(endpoints(settings.metrics, metrics, board))
        yield url


def _turning(age: float) -> Finding:
    return Finding(Health.UP if age < STALE_AFTER else Health.DOWN, {"lastTurnSeconds": round(age, 1)})


def _broker(settings: Settings, admin: KafkaAdmin) -> dict[str, object]:
    """Raises RetriableError where the broker does not answer."""
    admin.find("tidemark-is-it-there")
    return {"bootstrapServers": settings.kafka.bootstrap_servers}
