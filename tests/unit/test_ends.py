"""A process that is told to end does so within a bound, whatever does not answer."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tidemark.config.reading.load import parse_settings
from tidemark.ingest import application, query
from tidemark.ingest.application import Ingest, StreamOutcome
from tidemark.ingest.dead_letter_table import DeadLetterTableQuery
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.recording import MetricsObserver

DOCUMENT = {
    "kafka": {"bootstrap-servers": "localhost:1", "consumer": {"group-id": "g"}},
    "connector": {
        "topics": {
            "events": {
                "kafka-topic": "events",
                "supported-formats": ["JSON"],
                "schema": {"ddl": "id INT"},
                "destination": {"table": "a.b.c"},
            }
        }
    },
}


@pytest.fixture
def hanging() -> Any:
    """Something that does not answer, as long as the test lasts."""
    event = threading.Event()
    yield event
    event.set()


def test_a_run_returns_when_a_stream_hangs_in_a_store_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, hanging: threading.Event
) -> None:
    def supervise(_: Ingest, target: Any) -> StreamOutcome:
        if target.name == "hangs":
            hanging.wait(60)
        return StreamOutcome(target.name, None)

    names = [SimpleNamespace(name=name, keeps_dead_letters=False) for name in ("ends", "hangs")]
    monkeypatch.setattr(application, "targets_of", lambda *_, **__: names)
    monkeypatch.setattr(application, "LONGEST_END_S", 0.3)
    monkeypatch.setattr(Ingest, "_supervise", supervise)
    settings = parse_settings(json.dumps(DOCUMENT))
    spark: Any = None
    running = Ingest(spark, settings, observers=[MetricsObserver(Metrics())])
    threading.Timer(0.2, running.stop).start()
    began = time.monotonic()
    with capture_logs() as lines:
        outcomes = running.run()
    assert time.monotonic() - began < 10
    assert [(o.name, o.error) for o in outcomes] == [("ends", None), ("hangs", None)]
    assert [line["stream"] for line in lines if "left behind" in line["event"]] == ["hangs"]


@pytest.mark.parametrize("bounded", [True, False])
def test_a_query_that_does_not_end_is_waited_for_only_where_the_process_goes_on(
    monkeypatch: pytest.MonkeyPatch, hanging: threading.Event, *, bounded: bool
) -> None:
    monkeypatch.setattr(query, "_END_TIMEOUT_S", 0.2)
    stuck: Any = SimpleNamespace(name="q", stop=lambda: hanging.wait(1.0))
    began = time.monotonic()
    query.stop(stuck, bounded=bounded)
    assert (time.monotonic() - began < 0.9) == bounded


def test_dead_letters_are_not_read_to_their_end_when_the_process_is_to_end() -> None:
    unused: Any = None
    target: Any = SimpleNamespace(keeps_dead_letters=True, name="events")
    stopping = threading.Event()
    stopping.set()
    # Without the bound it would start a query, for which there is no session here.
    DeadLetterTableQuery(unused, unused, target, bounded=True).finish(stopping)
