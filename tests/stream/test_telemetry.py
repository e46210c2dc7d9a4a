"""What watches a running stream: metrics that move as they should, their endpoints, the metrics table."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from confluent_kafka import TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from tests.stream_under_test import BAD, NAME, Reports, StreamUnderTest, good

from tidemark.config.settings import Settings
from tidemark.contract import failpoints as fault_points
from tidemark.contract.events import Event, StreamObserver
from tidemark.dev.producers import SampleRecord
from tidemark.ingest.application import Ingest, StreamOutcome
from tidemark.ingest.monitoring.telemetry import telemetry_of
from tidemark.monitoring.logging import configure_logging
from tidemark.monitoring.metric_catalogue import CATALOGUE
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.recording import MetricsObserver
from tidemark.source.topics import KafkaAdmin


def with_metrics(flow: StreamUnderTest, **metrics: Any) -> Settings:
    settings = flow.settings()
    section = type(settings.metrics).model_validate({"enabled": True, "port": 0, **metrics})
    return replace(settings, metrics=section)


def run(flow: StreamUnderTest, settings: Settings, *observers: StreamObserver) -> StreamOutcome:
    return Ingest(
        flow.spark,
        settings,
        available_now=True,
        observers=[Reports(flow.reports), *observers],
        sleep=lambda _: False,
    ).run()[0]


def scraped(url: str) -> dict[tuple[str, str], float]:
    """(sample, its labels as JSON) → value, as a scraper reads them."""
    text = httpx.get(f"{url}/actuator/prometheus", timeout=10).text
    return {
        (s.name, json.dumps(s.labels, sort_keys=True)): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def take_all(flow: StreamUnderTest) -> int:
    """Deletes the topic's unread records, as retention does; how many offsets that were."""
    admin = KafkaAdmin(flow.settings().kafka)
    topic = admin.describe(flow.topic)
    ends = admin.ends(topic)
    asked = [TopicPartition(flow.topic, p, end) for p, end in ends.items()]
    for future in admin.client().delete_records(asked).values():
        future.result(10)
    return sum(end - flow.state().marks.at(p) for p, end in ends.items())


@pytest.mark.guarantee("case: kafka-04", "case: ops-03")
def test_every_metric_moves_as_it_should_in_a_run_with_faults(
    stream: Callable[..., StreamUnderTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = stream(partitions=2, **{"on-data-loss": "continue"})
    flow.produce(*[good(n) for n in range(30)], BAD, BAD, b"{", None, b'{"id": 7, "name": "x", "more": 1}')
    monkeypatch.setenv(fault_points.VARIABLE, "before-append=raise,before-publish=raise")
    fault_points.forget()
    settings = with_metrics(flow, table={"bucket": str(flow.folder), "path": "lake/metrics"})
    with telemetry_of(settings, flow.spark) as telemetry:
        assert telemetry.url is not None
        # Settings with metrics of their own: who is measured already is not measured twice.
        stopped = run(flow, settings, *telemetry.observers)
        assert "before-publish" in str(stopped.error)
        down = httpx.get(f"{telemetry.url}/actuator/health", timeout=10)
        assert (down.status_code, down.json()["components"]["streams"]["status"]) == (503, "DOWN")
        flow.produce(*[good(n) for n in range(30, 40)])
        assert run(flow, settings, *telemetry.observers).error is None
        # Retention takes offsets that nobody has read.
        flow.produce(*[good(n) for n in range(40, 60)])
        lost = take_all(flow)
        assert run(flow, flow.settings(), *telemetry.observers).error is None
        found = scraped(telemetry.url)
        dead_letters = json.dumps({"stream": NAME})
        deadline = time.monotonic() + 15
        while (
            found.get(("tidemark_dead_letter_topic_records", dead_letters)) != 3
            and time.monotonic() < deadline
        ):
            time.sleep(0.2)
            found = scraped(telemetry.url)
        health = httpx.get(f"{telemetry.url}/actuator/health/streams", timeout=10).json()

    def value(name: str, **labels: str) -> float:
        return found[name, json.dumps({"stream": NAME, **labels}, sort_keys=True)]

    exported = {n.removesuffix("_created") for n, _ in found}
    known = tuple(m.name.removesuffix("_total") for m in CATALOGUE)
    assert [n for n in exported if not n.startswith(known)] == []
    assert value("tidemark_records_read_total") == 45
    routes = ("accepted", "rejected", "skipped", "duplicate")
    counted = {r: value("tidemark_records_processed_total", route=r) for r in routes}
    # The first run landed 31 rows and stopped before it could tell; the second found them landed.
    assert counted == {"accepted": 10, "rejected": 3, "skipped": 1, "duplicate": 31}
    assert value("tidemark_duplicates_total") == 31
    assert value("tidemark_stream_restarts_total") == 2
    assert value("tidemark_lost_offsets_total") == lost == 20
    assert value("tidemark_dead_letters_total", code="TYPE_MISMATCH") == 2
    assert value("tidemark_dead_letters_total", code="MALFORMED_JSON") == 1
    assert value("tidemark_failures_total", scope="RECORD", retriable="false") == 3
    assert value("tidemark_failures_total", scope="DEPENDENCY", retriable="true") >= 1
    assert value("tidemark_dead_letter_topic_records") == 3
    assert 0 < value("tidemark_dead_letter_topic_age_seconds") < 600
    for name in ("tidemark_stream_info", "tidemark_build_info"):
        assert {v for (n, _), v in found.items() if n == name} == {1}
    assert value("tidemark_retries_total", topic=flow.topic) >= 1
    assert value("tidemark_delta_commits_total", outcome="committed") >= 1
    assert value("tidemark_unknown_fields_total") == 1
    assert value("tidemark_files_written_total") >= 1
    assert value("tidemark_bytes_written_total") > 100
    assert value("tidemark_batch_latency_seconds_count") >= 1
    assert value("tidemark_storage_write_seconds_sum") > 0
    assert value("tidemark_write_throughput_records_per_second") > 0
    assert value("tidemark_reconciliation_difference_records") == 0
    assert value("tidemark_lag_records", partition="0") == value("tidemark_lag_records", partition="1") == 0
    assert 0 <= value("tidemark_last_commit_age_seconds") < 60
    assert value("tidemark_stream_running") == 0
    assert health["status"] == "UP"
    assert health["details"][NAME]["lag"] == 0
    rows = flow.spark.read.format("delta").load(f"{flow.folder}/lake/metrics").collect()
    assert sum(r["read"] for r in rows) == 45
    assert {r["difference"] for r in rows} == {0}
    assert sum(r["failures"].get("TYPE_MISMATCH", 0) for r in rows) == 2
    assert max(sum(r["marks"].values()) for r in rows) >= 45


class Broken(StreamObserver):
    """Fails at every event."""

    def emit(self, event: Event) -> None:
        raise RuntimeError("telemetry is broken")


@pytest.mark.guarantee("fault: One stream of an application fails; what watches it fails → The others go on")
def test_telemetry_that_fails_never_stops_a_stream(
    stream: Callable[..., StreamUnderTest], tmp_path: Any
) -> None:
    flow = stream()
    flow.produce(*[good(n) for n in range(5)])
    (tmp_path / "no-folder").write_text("a file where a table should be")
    table = {"bucket": str(tmp_path), "path": "no-folder"}
    with telemetry_of(with_metrics(flow), flow.spark) as first:
        taken = int(str(first.url).rsplit(":", 1)[1])
        # A second application on the same port, with a table that cannot be written and a broken observer.
        settings = with_metrics(flow, table=table, port=taken)
        with telemetry_of(settings, flow.spark) as second:
            assert run(flow, flow.settings(), Broken(), *second.observers).error is None
        assert second.url is None
        assert second.metrics.value("tidemark_telemetry_errors_total", part="http") == 1
        assert second.metrics.value("tidemark_telemetry_errors_total", part="metrics-table") >= 1
        # What the configuration asks for is there by itself, and may fail as well.
        flow.produce(good(5))
        assert run(flow, settings).error is None
    assert flow.ids() == list(range(6))


def test_every_line_about_a_batch_or_a_record_is_traced_and_shows_no_payload(
    stream: Callable[..., StreamUnderTest],
) -> None:
    flow = stream()
    traced = SampleRecord(BAD, headers=[("correlation_id", b"c123-456")])
    flow.produce(good(1), traced, b'{"name": "secret of a person"}')
    out = io.StringIO()
    configure_logging("json", "DEBUG", stream=out)
    flow.land()
    configure_logging("console", "WARNING")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    logged = {line["record"]: line for line in lines if line["event"] == "record rejected"}
    assert {(line["level"], line["code"]) for line in logged.values()} == {
        ("DEBUG", "TYPE_MISMATCH"),
        ("DEBUG", "REQUIRED_FIELD"),
    }
    assert logged[f"{flow.topic}-0-1"]["correlation_id"] == "c123-456"
    assert logged[f"{flow.topic}-0-2"]["correlation_id"] == f"{flow.topic}-0-2"
    (landed,) = [line for line in lines if line["event"] == "batch landed"]
    assert (landed["level"], landed["correlation_id"], landed["rejected"]) == ("INFO", f"{NAME}/0", 2)
    (published,) = [line for line in lines if line["event"] == "dead letters published"]
    assert (published["level"], published["correlation_id"]) == ("INFO", f"{NAME}/0")
    assert published["codes"] == {"TYPE_MISMATCH": 1, "REQUIRED_FIELD": 1}
    (asked,) = [line for line in lines if line["event"] == "idempotency"]
    assert (asked["level"], asked["correlation_id"]) == ("DEBUG", f"{NAME}/0")
    assert "secret of a person" not in out.getvalue()


def test_the_hit_rate_of_fingerprints_is_reported_when_contents_come_again(
    stream: Callable[..., StreamUnderTest],
) -> None:
    flow = stream(idempotency={"mode": "fingerprint"})
    flow.produce(good(1), good(2), good(1), good(1))
    metrics = Metrics()
    assert run(flow, flow.settings(), MetricsObserver(metrics)).error is None
    assert flow.ids() == [1, 2]
    assert metrics.value("tidemark_fingerprint_checks_total", stream=NAME) == 4
    assert metrics.value("tidemark_fingerprint_hits_total", stream=NAME) == 2
    assert metrics.value("tidemark_duplicates_total", stream=NAME) == 2
