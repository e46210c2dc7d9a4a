"""The registry: documented names, bounded labels, numbers that move."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidemark.observe.catalogue import CATALOGUE, PREFIX, Kind
from tidemark.observe.metrics import Metrics
from tidemark.observe.reference import PAGE, with_table

BOUNDED = {
    "stream", "topic", "table", "partition", "breaker", "route", "scope", "code", "outcome", "state",
    "status", "retriable", "part", "application", "version",
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
    said = " ".join(m.source for m in CATALOGUE)
    assert [asked for asked in SOURCE_METRICS if asked not in said] == []


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
