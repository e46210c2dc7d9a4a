"""Health: what makes an indicator UP, DEGRADED, DOWN or UNKNOWN, and what the endpoints say over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, KafkaException
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tidemark.config.reading.load import load_settings, parse_settings
from tidemark.contract.errors import RestartStream, RetriableError, ShutdownRequested, UsageError
from tidemark.contract.events import DestinationTried, Event, StreamObserver, StreamsExpected, StreamStarted
from tidemark.contract.failures import Action
from tidemark.contract.marks import Marks
from tidemark.ingest.availability import Availability
from tidemark.ingest.monitoring import health_checks, telemetry
from tidemark.ingest.observers import notify_retries
from tidemark.monitoring import server as serving
from tidemark.monitoring.access import Authentication, Token
from tidemark.monitoring.actuator import WITHOUT_TOKEN, actuator_routes
from tidemark.monitoring.health import Finding, Health, HealthBoard, overall
from tidemark.monitoring.indicators import (
    DeadLetterRate,
    StreamInfo,
    breakers,
    delta_write,
    freshness,
    processed,
    reachable,
    started,
)
from tidemark.monitoring.metrics import Metrics
from tidemark.monitoring.recording import MetricsObserver
from tidemark.monitoring.server import HttpServer
from tidemark.resilience.breakers import Breakers
from tidemark.resilience.classification import Classifier
from tidemark.resilience.error_info import error_info_of
from tidemark.resilience.retry import Attempt, Retrier

SOURCE = Path(serving.__file__).parents[1]


def up(**details: Any) -> Finding:
    return Finding(Health.UP, details)


def down() -> dict[str, object]:
    raise RetriableError("Kafka at nowhere:1 did not answer", "start it")


@pytest.mark.parametrize(
    ("facts", "status", "state"),
    [
        (StreamInfo(True, 0, 9000.0), Health.UP, "FRESH"),
        (StreamInfo(True, 5, 10.0), Health.UP, "FRESH"),
        (StreamInfo(True, 5, 301.0), Health.DOWN, "STALE"),
        (StreamInfo(True, 5, None), Health.DOWN, "STALE"),
        (StreamInfo(False, 0, 1.0, "fenced"), Health.DOWN, "STOPPED"),
        (StreamInfo(None, None, None), Health.UNKNOWN, "UNKNOWN"),
        (StreamInfo(None, 3, 1.0), Health.UP, "FRESH"),
    ],
)
def test_freshness_is_the_age_of_the_last_commit_against_lag(
    facts: StreamInfo, status: Health, state: str
) -> None:
    found = freshness(lambda: {"orders": facts}, stale_after=300)()
    assert found.status is status
    assert found.details["orders"]["state"] == state  # type: ignore[index]


def test_a_process_is_not_ready_until_every_stream_has_started() -> None:
    observer = MetricsObserver(Metrics())
    board = HealthBoard({"started": started(observer.waiting)}, ready=("kafka", "started"), keep=0)
    assert board.readiness()[0] is Health.DOWN, "nobody has said which streams there are"
    observer.emit(StreamsExpected(("orders", "orders.landing")))
    for name in ("orders", "orders.landing"):
        status, found = board.readiness()
        assert status is Health.DOWN
        assert name in found["started"].details["waiting"]  # type: ignore[operator]
        observer.emit(StreamStarted(name, "t", "i", "x", Marks(), fresh=True))
    assert board.readiness()[0] is Health.UP


@pytest.mark.parametrize("begun", [False, True])
def test_the_endpoint_of_an_ingest_says_ready_when_every_stream_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, begun: bool
) -> None:
    for dependency in ("kafka", "storage"):
        monkeypatch.setattr(health_checks, dependency, lambda *_: {})
    monkeypatch.setattr(telemetry, "_looked", lambda *_: [])
    text = {"kafka": {"bootstrap-servers": "b:9092"}, "metrics": {"enabled": True, "port": 0}}
    place = {"bucket": str(tmp_path), "path": "orders"}
    orders = {"kafka-topic": "orders", "schema": {"ddl": "id INT"}, "destination": place}
    settings = parse_settings(
        json.dumps({**text, "connector": {"topics": {"orders": orders}}}), root=tmp_path
    )
    spark: Any = SimpleNamespace()
    with telemetry.telemetry_of(settings, spark) as found, httpx.Client(base_url=str(found.url)) as client:
        (observer,) = found.observers
        observer.emit(StreamsExpected(("orders",)))
        if begun:
            observer.emit(StreamStarted("orders", "t", "i", "x", Marks(), fresh=True))
        assert client.get("/actuator/health/readiness").status_code == (200 if begun else 503)
        waiting = client.get("/actuator/health/started").json().get("details")
        assert waiting == (None if begun else {"waiting": ["orders"]})


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (RetriableError("disk full"), "RetriableError: disk full"),
        (PermissionError("denied"), "PermissionError: denied"),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), None),
        (RestartStream("the marks moved"), None),
        (ShutdownRequested("the end"), None),
    ],
)
def test_a_failed_try_of_the_table_is_reported_when_the_failure_is_its_own(
    error: Exception, reported: str | None
) -> None:
    tried: list[tuple[str, str | None]] = []

    class Tried(StreamObserver):
        def emit(self, event: Event) -> None:
            assert isinstance(event, DestinationTried)
            tried.append((event.destination, event.error))

    def fail() -> None:
        raise error

    availability = Availability("orders", Breakers(), Retrier(), observers=Tried())
    for destination in ("table", "dead-letters"):
        with pytest.raises(type(error)):
            availability.attempt(destination, fail)
    availability.attempt("table", lambda: None)
    assert [e for d, e in tried if d == "table"] == ([reported, None] if reported else [None])


@pytest.mark.parametrize(
    ("step", "error", "reported"),
    [
        ("append", ConnectionError("reset"), "ConnectionError: reset"),
        ("read the log of t", ConnectionError("reset"), "ConnectionError: reset"),
        ("append", KafkaException(KafkaError(KafkaError._TRANSPORT)), None),
        ("publish dead letters", ConnectionError("reset"), None),
    ],
)
def test_an_attempt_that_is_repeated_is_the_tables_only_where_writing_it_failed(
    step: str, error: Exception, reported: str | None
) -> None:
    observer = MetricsObserver(Metrics())
    observer.emit(StreamStarted("orders", "t", "i", "x", Marks(), fresh=True))
    decision = Classifier().classify(error)
    assert decision.action is Action.RETRY
    notify_retries("orders", observer)(Attempt(step, 1, 0.1, decision, error_info_of(error)))
    assert observer.outcomes() == {"orders": reported}


def test_the_worst_indicator_is_the_health() -> None:
    assert overall({}) is Health.UP
    assert overall({"a": up(), "b": Finding(Health.UNKNOWN)}) is Health.UNKNOWN
    assert overall({"a": Finding(Health.DEGRADED), "b": Finding(Health.UNKNOWN)}) is Health.DEGRADED
    assert overall({"a": Finding(Health.DEGRADED), "b": Finding(Health.DOWN)}) is Health.DOWN


def test_an_open_breaker_degrades_and_a_failed_commit_is_down() -> None:
    assert breakers(lambda: {"orders/table": "CLOSED"})().status is Health.UP
    assert breakers(lambda: {"orders/table": "OPEN", "x": "CLOSED"})().status is Health.DEGRADED
    assert delta_write(lambda: {"orders": None})().status is Health.UP
    assert delta_write(lambda: {"orders": None, "b": "disk full"})() == Finding(
        Health.DOWN, {"b": "disk full"}
    )


def test_a_flood_of_dead_letters_degrades_until_the_window_has_passed() -> None:
    metrics, now = Metrics(), [0.0]
    rate = DeadLetterRate(lambda: processed(metrics), most=0.1, clock=lambda: now[0])
    metrics.add("tidemark_records_read_total", 2, stream="s")
    metrics.add("tidemark_records_processed_total", 2, stream="s", route="rejected")
    assert rate().status is Health.UP, "two records say nothing"
    metrics.add("tidemark_records_read_total", 98, stream="s")
    metrics.add("tidemark_records_processed_total", 18, stream="s", route="rejected")
    now[0] = 10
    assert rate().status is Health.DEGRADED
    now[0] = 400
    rate()
    now[0] = 800
    assert rate().status is Health.UP
    seen_from_outside = DeadLetterRate(lambda: processed(metrics), most=0.1, since_start=False)
    assert seen_from_outside().status is Health.UP, "what was there before the first look is history"


def test_a_probe_that_hangs_is_unknown_and_is_not_started_again() -> None:
    hanging, calls = threading.Event(), []

    def hang() -> Finding:
        calls.append(1)
        hanging.wait(20)
        return up()

    board = HealthBoard({"kafka": hang, "storage": up}, answer_within=0.1, keep=0)
    for _ in range(2):
        found = board.findings()
        assert (found["kafka"].status, found["storage"].status) == (Health.UNKNOWN, Health.UP)
    assert len(calls) == 1
    hanging.set()
    deadline = time.monotonic() + 5
    while board.findings(("kafka",))["kafka"].status is not Health.UP:
        assert time.monotonic() < deadline


def test_a_finding_is_kept_so_that_probes_do_not_load_a_dependency() -> None:
    now, calls = [0.0], []
    board = HealthBoard({"a": lambda: calls.append(1) or up()}, keep=5, clock=lambda: now[0])
    board.findings()
    board.findings()
    assert len(calls) == 1
    now[0] = 6
    board.findings()
    assert len(calls) == 2


class Served:
    def __init__(self, *, token: str | None = "let-me-in", loopback: bool = True) -> None:
        self.metrics = Metrics("shop")
        self.metrics.declare_stream("orders", topic="orders.v1", table="lake/orders")
        self.checks: dict[str, Any] = {"kafka": reachable(lambda: {"topics": 1}), "dlq-rate": up}
        board = HealthBoard(self.checks, ready=("kafka",), keep=0)
        app = Starlette(routes=actuator_routes(self.metrics, board))
        authentication = Authentication(
            app, token=Token(token) if token else None, loopback=loopback, open_paths=WITHOUT_TOKEN
        )
        self.server = HttpServer(authentication, host="127.0.0.1", port=0).start()
        self.client = httpx.Client(base_url=self.server.url, timeout=10)
        self.board = board


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    found = Served(**getattr(request, "param", {}))
    yield found
    found.client.close()
    found.server.stop()


def test_health_lists_each_indicator_and_liveness_never_fails_with_a_dependency(served: Served) -> None:
    answer = served.client.get("/actuator/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "UP")
    assert answer.json()["components"]["kafka"] == {"status": "UP", "details": {"topics": 1}}
    served.board.add("kafka", reachable(down))
    answer = served.client.get("/actuator/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "DOWN")
    assert "did not answer" in answer.json()["components"]["kafka"]["details"]["error"]
    assert served.client.get("/actuator/health/kafka").status_code == 503
    assert served.client.get("/actuator/health/dlq-rate").status_code == 200
    assert served.client.get("/actuator/health/none").status_code == 404
    assert served.client.get("/actuator/health/readiness").status_code == 503
    assert served.client.get("/actuator/health/liveness").json() == {"status": "UP"}


def test_metrics_are_served_for_people_and_for_prometheus(served: Served) -> None:
    served.metrics.add("tidemark_records_processed_total", 5, stream="orders", route="accepted")
    served.metrics.add("tidemark_records_processed_total", 2, stream="orders", route="rejected")
    served.metrics.observe("tidemark_batch_latency_seconds", 0.5, stream="orders")
    text = served.client.get("/actuator/prometheus")
    assert text.headers["content-type"].startswith("text/plain; version=")
    assert 'tidemark_records_processed_total{route="accepted",stream="orders"} 5.0' in text.text
    names = served.client.get("/actuator/metrics").json()["names"]
    assert "tidemark_records_processed_total" in names
    one = served.client.get("/actuator/metrics/tidemark_records_processed_total").json()
    assert one["measurements"] == [{"statistic": "VALUE", "value": 7.0}]
    assert {"tag": "stream", "values": ["orders"]} in one["availableTags"]
    narrowed = served.client.get(
        "/actuator/metrics/tidemark_records_processed_total", params={"tag": "route:rejected"}
    ).json()
    assert narrowed["measurements"][0]["value"] == 2
    latency = served.client.get("/actuator/metrics/tidemark_batch_latency_seconds").json()
    assert latency["baseUnit"] == "seconds"
    assert {m["statistic"]: m["value"] for m in latency["measurements"]} == {"COUNT": 1, "TOTAL_TIME": 0.5}
    assert served.client.get("/actuator/metrics/none").status_code == 404
    assert served.client.get("/actuator").json()["_links"]["health"]["href"].endswith("/actuator/health")


@pytest.mark.parametrize("served", [{"loopback": False}], indirect=True)
def test_a_token_is_asked_for_when_bound_elsewhere(served: Served) -> None:
    assert served.client.get("/actuator/health").status_code == 401
    assert (
        served.client.get("/actuator/prometheus", headers={"Authorization": "Bearer no"}).status_code == 401
    )
    allowed = {"Authorization": "Bearer let-me-in"}
    assert served.client.get("/actuator/prometheus", headers=allowed).status_code == 200
    assert served.client.get("/actuator/health/liveness").json() == {"status": "UP"}
    assert set(served.client.get("/actuator/health/readiness").json()) == {"status"}


def test_a_strangers_page_cannot_read_or_write_through_a_browser_on_this_machine(served: Served) -> None:
    for host in ("evil.example:8080", "127.evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example"):
        assert served.client.get("/actuator/health", headers={"Host": host}).status_code == 421, host
    for host in ("localhost:8080", "127.0.0.2", "[::1]:8080"):
        assert served.client.get("/actuator/health", headers={"Host": host}).status_code == 200, host
    token = {"Authorization": "Bearer let-me-in"}
    foreign = served.client.post("/actuator/health", headers={**token, "Origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert served.client.post("/actuator/health").status_code == 401, "a write needs the token everywhere"
    assert served.client.post("/actuator/health", headers=token).status_code == 405, (
        "there is nothing to write"
    )


@pytest.mark.parametrize("served", [{"loopback": False}], indirect=True)
@pytest.mark.parametrize("open_path", ["/actuator/health/liveness", "/actuator/health/readiness"])
def test_a_host_header_that_looks_like_an_open_path_opens_no_other(served: Served, open_path: str) -> None:
    for host in (f"x{open_path}?", f"x{open_path}#", f"x{open_path}?:80", f"127.0.0.1{open_path}?"):
        answer = served.client.get("/actuator/prometheus", headers={"Host": host})
        assert answer.status_code in (400, 401), host


def test_no_path_is_taken_from_the_url_which_a_client_writes() -> None:
    sources = [
        f for package in ("console", "monitoring", "reports") for f in (SOURCE / package).rglob("*.py")
    ]
    assert len(sources) > 20
    assert [f.name for f in sources if re.search(r"\.url\.(path|scheme|hostname)", f.read_text())] == []


def test_clients_that_say_nothing_neither_keep_others_out_nor_their_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(serving, "REQUEST_WITHIN", 0.6)
    address = ("127.0.0.1", served.server.port)
    silent = [socket.create_connection(address) for _ in range(12)]
    for one in silent[::2]:
        with contextlib.suppress(ConnectionError):
            one.sendall(b"GET /actuator/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    with httpx.Client(base_url=served.server.url) as client:
        assert client.get("/actuator/health/liveness").status_code == 200
    for one in silent:
        one.settimeout(10)
        with contextlib.suppress(ConnectionError):
            assert one.recv(1) == b"", "the server hangs up"
        one.close()
    # Who asks now and then keeps the connection, and one that was hung up on may come again.
    assert served.client.get("/actuator/health/liveness").json() == {"status": "UP"}


def test_silent_clients_make_room_at_once_when_there_are_too_many(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(serving, "REQUEST_WITHIN", 60)
    silent = [socket.create_connection(("127.0.0.1", served.server.port)) for _ in range(12)]

    def is_open(one: socket.socket) -> bool:
        one.settimeout(0.1)
        try:
            return one.recv(1) != b""
        except ConnectionError:
            return False
        except TimeoutError:
            return True

    deadline = time.monotonic() + 20
    while (left := sum(map(is_open, silent))) > 5:
        assert time.monotonic() < deadline, left
    assert left == 5
    for one in silent:
        one.close()


def test_clients_that_send_slowly_or_take_nothing_are_hung_up_on_and_keep_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(serving, "REQUEST_WITHIN", 1.5)
    took = []

    async def read(request: Request) -> Response:
        took.append(await request.body())
        return PlainTextResponse("thanks")

    async def work(_: Request) -> Response:
        await asyncio.sleep(2.5)
        return PlainTextResponse("worked")

    async def much(_: Request) -> Response:
        return PlainTextResponse(b"x" * 50_000_000)

    app = Starlette(
        routes=[Route("/read", read, methods=["POST"]), Route("/work", work), Route("/much", much)]
    )
    post = b"POST /read HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nx"
    get = b"GET /much HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with HttpServer(app, host="127.0.0.1", port=0) as server, httpx.Client(base_url=server.url) as client:
        address = ("127.0.0.1", server.port)
        held = [socket.create_connection(address) for _ in range(12)]
        for number, one in enumerate(held):
            with contextlib.suppress(ConnectionError):
                one.sendall(get if number % 3 == 0 else post)
        assert client.post("/read", content=b"quick").text == "thanks"
        assert client.get("/work", timeout=10).text == "worked", "the server's own time is not the client's"
        began = time.monotonic()
        for one in held:
            one.settimeout(10)
            with contextlib.suppress(ConnectionError):
                while one.recv(1_000_000):
                    pass
            one.close()
        assert time.monotonic() - began < 8
    assert took == [b"quick"]


def test_the_error_names_the_port_when_it_is_taken(served: Served) -> None:
    with pytest.raises(UsageError, match="cannot listen on"):
        HttpServer(served.server, host="127.0.0.1", port=served.server.port).start()


def test_the_token_is_not_shown() -> None:
    assert "let-me-in" not in repr(Token("let-me-in"))
    assert "let-me-in" not in Token("let-me-in").cookie


def test_an_app_is_healthy_without_the_volume_of_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tidemark.yml"
    file.write_text(
        "kafka: {bootstrap-servers: b:1}\n"
        "connector: {topics: {s: {kafka-topic: t, schema: {ddl: id INT},"
        f" destination: {{bucket: {tmp_path}, path: s}}}}}}}}\n"
        "checkpoint-root: /Volumes/c/s/checkpoints\n"
    )
    settings = load_settings(file)
    # As for an ordinary user where no volume is mounted.
    monkeypatch.setattr(health_checks.os, "access", lambda path, _: str(path) != "/")
    with pytest.raises(RetriableError, match="/ cannot be read and written"):
        health_checks.storage(settings, pytest.fail)
    monkeypatch.setenv("DATABRICKS_APP_PORT", "8000")
    assert health_checks.storage(settings, pytest.fail) == {"tables": 1}
