"""The console over real HTTP, a real broker and a real table: what it shows, and who may do what."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
from structlog.testing import capture_logs
from tests.console.conftest import TOKEN
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.console.serving import Serving
from tidemark.reports.from_settings import reports_of
from tidemark.reports.publisher import ensure_topics
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.status import logs_of, status_of

AS_PAGE = {"Accept": "text/html"}


def shown(client: httpx.Client, path: str, *texts: str, timeout: float = 30) -> str:
    """The page, once it shows all these texts."""
    deadline = time.monotonic() + timeout
    while True:
        page = client.get(path, headers=AS_PAGE).text
        missing = [text for text in texts if text not in page]
        if not missing:
            return page
        assert time.monotonic() < deadline, (missing, page)
        time.sleep(0.2)


def test_streams_their_lag_and_commits_are_shown_and_measured(
    stream: Callable[..., StreamUnderTest], console: Callable[..., Serving]
) -> None:
    flow = stream(partitions=2)
    flow.produce(*[good(n) for n in range(40)], BAD)
    flow.land()
    flow.produce(good(40), good(41))
    (status,) = status_of(logs_of(flow.spark), flow.settings(), NAME)
    assert (status.lag, status.dead_letters) == (2, 1)
    with httpx.Client(base_url=console(flow).server.url, timeout=30) as client:
        shown(client, "/", f"/streams/{NAME}", '<dd class="lag">2</dd>', "<svg", "FRESH")
        page = shown(client, f"/streams/{NAME}", "batch", "0:", "1:")
        assert "Last commits" in page
        text = client.get("/actuator/prometheus").text
        assert f'tidemark_dead_letter_topic_records{{stream="{NAME}"}} 1.0' in text
        lag = [line for line in text.splitlines() if line.startswith("tidemark_lag_records{")]
        assert sum(float(line.rsplit(" ", 1)[1]) for line in lag) == 2
        oldest = [line for line in text.splitlines() if line.startswith("tidemark_lag_seconds{")]
        assert 0 < max(float(line.rsplit(" ", 1)[1]) for line in oldest) < 600
        assert client.get("/actuator/health").json()["status"] == "UP"
        assert client.get("/nowhere", headers=AS_PAGE).status_code == 404
        missing = client.get("/streams/nowhere", headers=AS_PAGE)
        assert (missing.status_code, "no stream is named nowhere" in missing.text) == (404, True)


def test_a_write_needs_the_token_and_a_reason_and_is_logged_with_who_and_why(
    stream: Callable[..., StreamUnderTest],
    console: Callable[..., Serving],
) -> None:
    flow = stream()
    ensure_topics(KafkaAdmin(flow.settings().kafka), reports_of(flow.settings()))
    url = console(flow).server.url
    ask = {"report_type": "VOLUME", "parameters": "{}", "why": "month end"}
    with capture_logs() as logged, httpx.Client(base_url=url, timeout=30) as client:
        assert client.post("/report-requests", data=ask).status_code == 401
        assert client.post("/reports", json={}).status_code == 401
        wrong = client.post("/sign-in", data={"token": "no", "name": "ann"})
        assert (wrong.status_code, "That is not the token" in wrong.text) == (403, True)
        assert client.post("/sign-in", data={"token": TOKEN, "name": " "}).status_code == 400
        away = client.post("/sign-in", data={"token": TOKEN, "name": "ann", "next": "//evil.example"})
        assert away.headers["location"] == "./"
        cookie = away.headers["set-cookie"]
        assert TOKEN not in cookie
        assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
        foreign = client.post("/report-requests", data=ask, headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        without = client.post("/report-requests", data={**ask, "why": " "})
        assert (without.status_code, "give a reason" in without.text) == (400, True)
        asked = client.post("/report-requests", data=ask)
        assert asked.status_code == 303
        shown(client, f"/{asked.headers['location'].removeprefix('./')}", "is asked for.")
        for text in ("problem=call+us", "done=call+us&id=1", "done=submit&id=call+us"):
            assert "call us" not in client.get(f"/report-requests?{text}").text
        page = shown(client, "/report-requests", "VOLUME", "SUBMITTED", "ann")
        (row,) = client.get("/reports").json()
        assert (row["requestedBy"], row["status"]) == ("ann", "SUBMITTED")
        client.post(f"/report-requests/{row['requestId']}/cancel", data={"why": "not needed"})
        shown(client, "/report-requests", "CANCELLED")
        assert "tidemark_report_requests" in client.get("/actuator/prometheus").text
        client.post("/sign-out")
        assert client.post("/report-requests", data=ask).status_code == 401
        assert "Ask for a report" in page
    written = [(e["action"], e["who"], e["why"]) for e in logged if e["event"] == "console write"]
    assert written == [("submit report", "ann", "month end"), ("cancel report", "ann", "not needed")]


def test_all_but_probes_is_closed_when_the_console_is_reachable_from_outside(
    stream: Callable[..., StreamUnderTest], console: Callable[..., Serving]
) -> None:
    serving = console(stream(), host="0.0.0.0")
    with httpx.Client(base_url=serving.server.url, timeout=30) as client:
        asked = client.get("/", headers=AS_PAGE)
        assert (asked.status_code, asked.headers["location"]) == (303, "./sign-in?next=%2F")
        for path in ("/actuator/health", "/actuator/prometheus", "/reports", "/fragments/overview"):
            assert client.get(path).status_code == 401, path
        assert client.get("/actuator/health/liveness").status_code == 200
        assert client.get("/sign-in").status_code == 200
        assert client.get("/static/console.css").status_code == 200
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/reports", headers=allowed).json() == []
