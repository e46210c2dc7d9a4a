"""What the console refuses before it asks Spark or Kafka for anything: over HTTP, with neither at hand."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from pyspark.sql import SparkSession

from tidemark.config.reading.load import parse_settings
from tidemark.config.sections import MetricsSettings
from tidemark.console.serving import serving

TOKEN = "a-token-for-tests"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def no_spark() -> SparkSession:
    raise RuntimeError("there is no Spark here")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client that is signed in; the broker does not answer."""
    root: Path = tmp_path_factory.mktemp("console")
    events = {
        "kafka-topic": "events",
        "schema": {"ddl": "id INT"},
        "destination": {"bucket": str(root), "path": "events"},
    }
    document = {
        "kafka": {"bootstrap-servers": "127.0.0.1:9"},
        "connector": {"topics": {"events": events}},
        "checkpoint-root": str(root / "checkpoints"),
        "state-dir": str(root / "state"),
        "reports": {"database": f"sqlite:///{root}/reports.db"},
    }
    settings = parse_settings(json.dumps(document), root=root)
    at = MetricsSettings.model_validate({"port": 0, "token": TOKEN})
    with (
        serving(settings, no_spark, at=at, every=60) as running,
        httpx.Client(base_url=running.server.url, headers=ALLOWED, timeout=30) as client,
    ):
        yield client


@pytest.mark.parametrize("token", ["Bearer wrong", "Bearer", "Basic abc", "Bearer \u00fc".encode("latin-1")])
def test_a_wrong_token_is_refused_for_every_write(console: httpx.Client, token: Any) -> None:
    for path in (
        "/dead-letters/bring-in",
        "/dead-letters/letter",
        "/report-requests",
        "/reports",
        "/sign-out",
    ):
        answer = console.post(path, headers={"Authorization": token})
        assert (answer.status_code, "a token is needed" in answer.text) == (401, True), path


@pytest.mark.parametrize(
    "path",
    ["/static/..%2f..%2f..%2fpyproject.toml", "/static/../../contract/errors.py", "/%00", "/reports/%00"],
)
def test_a_path_leads_nowhere_else(console: httpx.Client, path: str) -> None:
    answer = console.get(path)
    assert (answer.status_code, answer.json()["status"]) == (404, 404)


def test_a_form_that_is_too_large_is_refused(console: httpx.Client) -> None:
    form = {"stream": "events", "id": "x", "action": "replay", "why": "x", "value": "x" * 5_000_000}
    answer = console.post("/dead-letters/letter", data=form)
    assert (answer.status_code, "larger than" in answer.text) == (413, True)
    assert "tidemark dead-letters replay" in answer.json()["hint"]


def test_forms_are_refused_at_once_when_they_have_endless_fields_or_are_large(
    console: httpx.Client,
) -> None:
    began = time.monotonic()
    answer = console.post("/dead-letters/letter", content=b"a&" * 1_999_999)
    assert (answer.status_code, "more than 50 fields" in answer.text) == (413, True)
    answer = console.post("/sign-in", content=b"token=" + b"x" * 20_000, headers={"Authorization": ""})
    assert (answer.status_code, "larger than 16384" in answer.text) == (413, True)
    assert time.monotonic() - began < 3, "nobody else waits for it"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/streams/events",
        "/streams/a%2Fb",
        "/report-requests",
        "/sign-in",
        "/nothing",
        "/dead-letters/letter",
    ],
)
def test_every_link_of_a_page_holds_behind_a_proxy_that_puts_a_path_before_it(
    console: httpx.Client, path: str
) -> None:
    """What a proxy that takes the prefix off again hands on: a link must stay under the prefix."""
    public = "https://proxy.example/apps/tidemark"
    page = console.get(path, headers={"Accept": "text/html"})
    links = re.findall(r'(?:href|src|action|data-live)="([^"#]*)"', page.text)
    assert len(links) > 6
    for link in links:
        seen = urljoin(public + path, html.unescape(link))
        assert seen.startswith(public + "/"), link
        inside = seen.removeprefix(public)
        if inside.startswith(("/static/", "/fragments/")):
            answer = console.get(inside)
            assert answer.status_code == (500 if "/streams/" in inside else 200), (inside, answer.text)
        if inside.startswith("/fragments/"):
            shown_in = inside.removeprefix("/fragments").replace("/overview", "/")
            for inner in re.findall(r'(?:href|action)="([^"#]*)"', answer.text):
                assert urljoin(public + shown_in, inner).startswith(public + "/"), inner


def test_every_answer_that_sends_elsewhere_stays_behind_the_prefix_of_a_proxy(console: httpx.Client) -> None:
    public = "https://proxy.example/apps/tidemark"
    form = {"token": TOKEN, "name": "ann", "next": "/streams/events"}
    sent = {
        ("/sign-in", "/streams/events"): console.post("/sign-in", data=form),
        ("/sign-out", "/"): console.post("/sign-out"),
    }
    console.cookies.clear()
    for (path, to), answer in sent.items():
        assert answer.status_code == 303, answer.text
        assert urljoin(public + path, answer.headers["location"]).startswith(public + to), path
    for target in ("//evil.example", "https://evil.example", "/\\evil.example", "evil.example"):
        answer = console.post("/sign-in", data={**form, "next": target})
        console.cookies.clear()
        assert urljoin(public + "/sign-in", answer.headers["location"]) == f"{public}/", target


def test_an_accept_header_that_makes_no_sense_gets_the_plain_metrics(console: httpx.Client) -> None:
    wrong = {"Accept": "application/openmetrics-text; version=zzz;q=abc,,;"}
    answer = console.get("/actuator/prometheus", headers=wrong)
    assert (answer.status_code, "tidemark_build_info" in answer.text) == (200, True)


def test_a_stream_that_is_not_there_is_named_and_a_script_in_its_name_is_text(console: httpx.Client) -> None:
    script = "<script>alert(1)</script>"
    answer = console.get("/dead-letters", params={"stream": script}, headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert "&lt;script&gt;" in answer.text
    assert script not in answer.text
    assert console.get("/dead-letters", params={"stream": "x"}).json()["hint"] == "there are events"


def test_each_wrong_report_request_is_reported_what_is_wrong(
    console: httpx.Client,
) -> None:
    good_one = {"reportType": "VOLUME", "requestedBy": "ann"}
    bodies: list[tuple[Any, str]] = [
        (b"[" * 100_000, "not JSON"),
        (b'{"reportType": "\xff"}', "not JSON"),
        (b"[]", "not a JSON object"),
        (b" " * 300_000, "larger than"),
        ({**good_one, "requestId": "../../x"}, "requestId"),
        ({**good_one, "requestId": "\u5831\u544a"}, "requestId"),
        ({**good_one, "requestId": "a\r\nSet-Cookie: x=1"}, "requestId"),
        ({**good_one, "requestId": ""}, "requestId"),
        ({**good_one, "requestedBy": "\0"}, "NUL"),
        (b'{"reportType": "\\ud83d", "requestedBy": "ann"}', "surrogate"),
        (b'{"reportType": "A", "requestedBy": "ann", "parameters": {"n": NaN}}', "not JSON"),
        ({**good_one, "parametersJson": "[" * 100_000}, "not JSON"),
        (b'{"reportType": "A", "requestedBy": "ann", "parameters": {"a": "\\ud83d"}}', "surrogate"),
        ({**good_one, "reportType": "x" * 65}, "reportType"),
    ]
    for body, reported in bodies:
        content = body if isinstance(body, bytes) else None
        answer = console.post("/reports", content=content, json=None if content else body)
        assert (answer.status_code in (400, 413), reported in answer.json()["detail"]) == (True, True), (
            answer.text
        )
    for path in ("/reports/%00", "/reports/..%2f..%2fetc", "/reports/nothing"):
        assert console.get(path).status_code == 404, path
    assert console.get("/reports", params={"limit": "many"}).status_code == 400
    assert console.get("/reports").json() == []
