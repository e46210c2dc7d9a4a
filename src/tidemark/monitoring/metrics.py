"""The metrics of one process, in a registry of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from tidemark.contract.failure_codes import FailureCode
from tidemark.contract.failures import Scope
from tidemark.contract.routes import Route
from tidemark.monitoring.metric_catalogue import CATALOGUE, Kind, Metric

BREAKER_STATES = ("CLOSED", "OPEN", "HALF_OPEN")
OTHER = "OTHER"
"""Label of values that are not in a closed list: a label never takes a value from outside."""


class Metrics:
    """Thread-safe. `of(name)` is the metric of that exported name; labels are those of the catalogue.

    `declare_stream` sets a stream's counters to 0, so that the first failure has a rate too.
    """

    def __init__(self, application: str = "tidemark", *, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._committed_at: dict[str, float] = {}
        self._breakers: set[str] = set()
        self._made = {m.name: _made(m, self.registry) for m in CATALOGUE}
        self.set("tidemark_build_info", 1, application=application, version=_version())

    def of(self, name: str) -> Any:
        return self._made[name]

    def add(self, name: str, amount: float = 1, /, **labels: str) -> None:
        _labelled(self._made[name], labels).inc(amount)

    def set(self, name: str, value: float, /, **labels: str) -> None:
        _labelled(self._made[name], labels).set(value)

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        _labelled(self._made[name], labels).observe(value)

    def declare_stream(self, stream: str, *, topic: str, table: str) -> None:
        self.set("tidemark_stream_info", 1, stream=stream, topic=topic, table=table)
        for metric in CATALOGUE:
            if metric.labels == ("stream",) and metric.kind is not Kind.GAUGE:
                self._made[metric.name].labels(stream)
        for route in Route:
            self.of("tidemark_records_processed_total").labels(stream, route.value)
        for outcome in ("committed", "failed"):
            self.of("tidemark_delta_commits_total").labels(stream, outcome)
        for scope in Scope:
            for retriable in ("true", "false"):
                self.of("tidemark_failures_total").labels(stream, scope.value, retriable)
        self.of("tidemark_retries_total").labels(stream, topic)
        self.set("tidemark_reconciliation_difference_records", 0, stream=stream)

    def dead_letters(self, stream: str, codes: Mapping[str, int]) -> None:
        """`codes`: number of records by failure code. An unknown code is counted as OTHER."""
        known = {code.value for code in FailureCode}
        for code, count in codes.items():
            if count:
                self.add(
                    "tidemark_dead_letters_total", count, stream=stream, code=code if code in known else OTHER
                )

    def breaker(self, name: str, state: str) -> None:
        """Set its state without counting a change."""
        self._breakers.add(name)
        for each in BREAKER_STATES:
            self.set("tidemark_breaker_state", float(each == state), breaker=name, state=each)

    def committed(self, stream: str, *, at: float | None = None, version: int | None = None) -> None:
        """A commit at Unix time `at`, now by default; each scrape reports its age."""
        first = stream not in self._committed_at
        self._committed_at[stream] = self._clock() if at is None else at
        if first:
            self.of("tidemark_last_commit_age_seconds").labels(stream).set_function(
                lambda: max(0.0, self._clock() - self._committed_at[stream])
            )
        if version is not None:
            self.set("tidemark_table_version", version, stream=stream)

    def commit_age(self, stream: str) -> float | None:
        """Seconds since the newest commit; None before the first."""
        at = self._committed_at.get(stream)
        return None if at is None else max(0.0, self._clock() - at)

    def value(self, name: str, /, **labels: str) -> float:
        """The value of one sample, 0 where it does not exist. For health, pages and tests."""
        found = self.registry.get_sample_value(name, labels)
        return 0.0 if found is None else found

    def total(self, name: str, /, **labels: str) -> float:
        """The sum of the samples of that name that carry these labels."""
        return sum(
            s.value
            for family in self.families()
            for s in family.samples
            if s.name == name and labels.items() <= s.labels.items()
        )

    def families(self) -> Iterable[Family]:
        return list(self.registry.collect())

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """The registry in the format of Prometheus, and its content type; plain for an invalid `accept`."""
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):
            encode, kind = choose_encoder("")
        return encode(self.registry), kind


def _made(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    name, labels = metric.name, metric.labels
    if metric.kind is Kind.COUNTER:
        return Counter(name.removesuffix("_total"), metric.help, labels, registry=registry)
    if metric.kind is Kind.HISTOGRAM:
        return Histogram(name, metric.help, labels, buckets=metric.buckets, registry=registry)
    return Gauge(name, metric.help, labels, registry=registry)


def _labelled(metric: Any, labels: Mapping[str, str]) -> Any:
    return metric.labels(**labels) if labels else metric


def _version() -> str:
    try:
        return metadata.version("tidemark")
    except metadata.PackageNotFoundError:
        return "unknown"
