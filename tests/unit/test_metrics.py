"""The registry: documented names, bounded labels, numbers that move."""

from __future__ import annotations

import re
import timeit
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidemark.config.sections import BreakerSettings
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.events import (
    BatchFailed,
    BreakerChanged,
    DestinationTried,
    OffsetsLost,
    Retrying,
    StreamEnded,
    StreamStarted,
)
from tidemark.contract.failures import Scope
from tidemark.contract.marks import Marks
from tidemark.ingest.monitoring.metrics_table import pause_after
from tidemark.listener.meter import BreakerMetrics, Meter
from tidemark.monitoring.metric_catalogue import CATALOGUE, PREFIX, Kind
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.recording import MetricsObserver
from tidemark.monitoring.reference import PAGE, with_table
from tidemark.resilience.breaker import Breaker

BOUNDED = {
    "stream", "topic", "table", "partition", "breaker", "route", "scope", "code", "outcome", "state",
    "status", "retriable", "part", "application", "version", "group",
}  # fmt: skip
SOURCE_METRICS = [
    "Messages processed successfully",
    "Messages failed (retriable vs non-retriable)",
    "Messages sent to DLQ",
    "Processing latency",
    "Retry attempts per topic",
    "Circuit breaker state changes",
    "Duplicate messages detected",
    "Idempotency cache hit rate",
    "Kafka consumer lag",
    "S3 write latency",
    "Delta Lake transaction success rate",
    "Time from consume to acknowledge".lower(),
    "error rates",
    "DLQ volume",
    "throughput",
    "DLQ topic sizes",
    "Monitor lag per partition",
]


def sampled(metrics: Metrics) -> dict[str, set[tuple[str, ...]]]:
    """Exported names and the labels of their samples, as a scraper reads them."""
    text, kind = metrics.exposition()
    assert kind.startswith("text/plain")
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found[name] = {tuple(sorted(s.labels)) for s in family.samples}
    return found


def test_the_page_names_what_is_exported_and_nothing_else() -> None:
    assert with_table(PAGE.read_text()) == PAGE.read_text()
    assert set(sampled(Metrics())) == {m.name for m in CATALOGUE}


def test_every_metric_of_the_source_documents_has_a_name() -> None:
    sources = " ".join(m.source for m in CATALOGUE)
    assert [asked for asked in SOURCE_METRICS if asked not in sources] == []


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda m: m.name)
def test_a_name_says_its_unit_and_its_labels_are_bounded(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric.name.startswith(PREFIX)
    assert set(metric.labels) <= BOUNDED
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.kind is not Kind.HISTOGRAM or (metric.name.endswith("_seconds") and metric.buckets)
    assert re.fullmatch(r"[a-z_]+", metric.name)
    assert metric.help.endswith(".") or "; " in metric.help


def test_counters_of_a_stream_start_at_zero_so_that_the_first_failure_has_a_rate() -> None:
    metrics = Metrics()
    metrics.declare_stream("orders", topic="orders.v1", table="lake/orders")
    assert metrics.registry.get_sample_value("tidemark_lost_offsets_total", {"stream": "orders"}) == 0
    labels = {"stream": "orders", "scope": "DEPENDENCY", "retriable": "true"}
    assert metrics.registry.get_sample_value("tidemark_failures_total", labels) == 0


def test_a_code_from_outside_never_becomes_a_label() -> None:
    metrics = Metrics()
    metrics.dead_letters("orders", {"TYPE_MISMATCH": 2, "made up by a sender": 3, "MALFORMED_JSON": 0})
    assert metrics.value("tidemark_dead_letters_total", stream="orders", code="TYPE_MISMATCH") == 2
    assert metrics.value("tidemark_dead_letters_total", stream="orders", code="OTHER") == 3
    assert metrics.total("tidemark_dead_letters_total") == 5


def test_the_age_of_the_last_commit_goes_on_between_scrapes() -> None:
    now = [1000.0]
    metrics = Metrics(clock=lambda: now[0])
    assert metrics.commit_age("orders") is None
    metrics.committed("orders", version=7)
    now[0] += 90
    assert metrics.value("tidemark_last_commit_age_seconds", stream="orders") == 90
    metrics.committed("orders", at=1080)
    assert metrics.value("tidemark_last_commit_age_seconds", stream="orders") == 10
    assert metrics.value("tidemark_table_version", stream="orders") == 7


def test_a_breaker_is_in_one_state() -> None:
    metrics = Metrics()
    metrics.breaker("orders/table", "OPEN")
    metrics.breaker("orders/table", "HALF_OPEN")
    states = {s: metrics.value("tidemark_breaker_state", breaker="orders/table", state=s)
              for s in ("CLOSED", "OPEN", "HALF_OPEN")}  # fmt: skip
    assert states == {"CLOSED": 0, "OPEN": 0, "HALF_OPEN": 1}


def test_a_breaker_that_trips_is_reported_when_metrics_listen_to_it() -> None:
    metrics = Metrics()
    breaker = Breaker("reports/archive", BreakerSettings(), listeners=[BreakerMetrics(metrics)])
    for _ in range(breaker.settings.failure_threshold):
        breaker.acquire().failed("down")
    assert metrics.value("tidemark_breaker_state", breaker="reports/archive", state="OPEN") == 1
    assert metrics.value("tidemark_breaker_changes_total", breaker="reports/archive", state="OPEN") == 1


def test_a_partition_that_went_to_another_member_has_no_lag_here() -> None:
    metrics = Metrics()
    meter = Meter(metrics, "g")
    meter.lag({("t", 0): 3, ("t", 1): 4})
    meter.lag({("t", 1): 2})
    assert sampled(metrics)["tidemark_listener_lag_records"] == {("group", "partition", "topic")}
    assert metrics.total("tidemark_listener_lag_records") == 2


def test_a_batch_pays_less_than_a_millisecond_for_its_metrics() -> None:
    """The smallest batch takes some 300 ms, so this is far below the two per cent that metrics may cost."""
    metrics = Metrics()
    observer = MetricsObserver(metrics)
    partitions = Marks({p: 1000 for p in range(12)})
    observer.emit(StreamStarted("s", "t", "i", "x", partitions, fresh=True))
    failures = {"RULE_VIOLATED": 1}
    report = BatchReport("s", 1, 10, 8, 1, 1, 0, 0, 5, partitions, 0.5, 0.3, failures, ends=partitions)
    took = min(timeit.repeat(lambda: observer.emit(report), number=50, repeat=5)) / 50
    assert took < 0.001
    assert metrics.value("tidemark_records_read_total", stream="s") == 2500


def test_each_metric_is_looked_at_where_something_moves_it() -> None:
    tests = Path(__file__).parents[1]
    text = "".join(
        file.read_text() for file in tests.rglob("test_*.py") if file.name != "test_observability_files.py"
    )
    names = [m.name for m in CATALOGUE if f'"{m.name}' not in text and f"'{m.name}" not in text]
    assert names == []


@pytest.mark.parametrize(("took", "pause"), [(0.02, 10.0), (0.5, 50.0), (20.0, 300.0)])
def test_an_append_to_the_metrics_table_is_the_rarer_the_longer_one_takes(took: float, pause: float) -> None:
    assert pause_after(took, every=10.0) == pause


def test_events_of_streams_become_metrics_and_answers_for_health() -> None:
    metrics = Metrics()
    observer = MetricsObserver(metrics)
    observer.emit(StreamStarted("s", "t", "i", "x", Marks({0: 5}), fresh=True))
    assert observer.facts()["s"].lag is None
    observer.emit(Retrying("s", "append to x", 1, 1, "STORAGE"))
    observer.emit(BatchFailed("s", 0, Scope.PROCESS, "FENCED", "fenced"))
    assert observer.outcomes() == {"s": None}, "not the table's own failure"
    observer.emit(DestinationTried("s", "dead-letters", "no leader"))
    assert observer.outcomes() == {"s": None}
    observer.emit(DestinationTried("s", "table", "disk full"))
    assert metrics.value("tidemark_delta_commits_total", stream="s", outcome="failed") == 1
    assert metrics.value("tidemark_failures_total", stream="s", scope="PROCESS", retriable="false") == 1
    assert metrics.value("tidemark_retries_total", stream="s", topic="t") == 1
    observer.emit(BreakerChanged("s/table", "CLOSED", "OPEN", "5 failures"))
    assert metrics.value("tidemark_breaker_changes_total", breaker="s/table", state="OPEN") == 1
    observer.emit(OffsetsLost("s", 4))
    assert metrics.value("tidemark_lost_offsets_total", stream="s") == 4
    observer.ends_known("s", Marks({0: 9}))
    assert observer.facts()["s"].lag == 4
    assert metrics.value("tidemark_lag_records", stream="s", partition="0") == 4
    report = BatchReport("s", 1, 4, 4, 0, 0, 0, 0, 5, Marks({0: 9}), ends=Marks({0: 9}), conflicts=2)
    observer.emit(report)
    assert metrics.value("tidemark_conflicts_total", stream="s") == 2
    assert observer.outcomes() == {"s": "disk full"}, "a batch can be done without its table: dead-lettered"
    observer.emit(DestinationTried("s", "table", None))
    assert observer.outcomes() == {"s": None}
    assert (observer.facts()["s"].lag, observer.facts()["s"].running) == (0, True)
    observer.emit(StreamEnded("s", RuntimeError("gone\nsecond line")))
    assert (observer.facts()["s"].running, observer.facts()["s"].problem) == (False, "gone second line")
