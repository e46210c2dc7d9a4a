"""`POST /reports` and `GET /reports/{id}` over real HTTP, answered by a real worker behind a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

from tidemark.dev.kafka_server import free_ports
from tidemark.reports.http import report_routes
from tidemark.reports.requests.request import Status

if TYPE_CHECKING:
    from tests.reports.conftest import Workflow


@pytest.fixture
def served(workflow: Callable[..., Workflow]) -> Iterator[tuple[Workflow, httpx.Client]]:
    flow = workflow()
    (port,) = free_ports(1)
    app = Starlette(routes=report_routes(flow.service))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        yield flow, client
    server.should_exit = True
    thread.join(10)


def asked(**changes: Any) -> dict[str, Any]:
    return {"reportType": "ECHO", "requestedBy": "analyst@ej.com", "parameters": {"n": 1}, **changes}


def test_a_report_is_submitted_asked_for_and_completed(served: tuple[Workflow, httpx.Client]) -> None:
    flow, client = served
    flow.worker()
    answer = client.post("/reports", json=asked(), headers={"X-Correlation-Id": "trace-1"})
    assert answer.status_code == 202
    assert answer.headers["X-Correlation-Id"] == "trace-1"
    assert answer.json()["status"] in ("SUBMITTED", "IN_PROGRESS", "COMPLETED")
    flow.wait_for(answer.json()["requestId"], Status.COMPLETED)
    found = client.get(answer.headers["Location"])
    assert found.status_code == 200
    assert found.json()["status"] == "COMPLETED"
    assert found.json()["archiveRef"].startswith("sha256-")
    assert found.headers["X-Correlation-Id"] == "trace-1"
    assert [row["requestId"] for row in client.get("/reports").json()] == [answer.json()["requestId"]]


def test_the_same_request_id_is_one_request_and_other_content_a_conflict(
    served: tuple[Workflow, httpx.Client],
) -> None:
    _, client = served
    assert client.post("/reports", json=asked(requestId="r-1")).status_code == 202
    assert client.post("/reports", json=asked(requestId="r-1")).status_code == 200
    conflict = client.post("/reports", json=asked(requestId="r-1", parameters={"n": 2}))
    assert conflict.status_code == 409
    assert conflict.headers["content-type"] == "application/problem+json"


def test_wrong_requests_are_answered_with_what_is_wrong(served: tuple[Workflow, httpx.Client]) -> None:
    flow, client = served
    for body, part in (
        (asked(reportType=""), "reportType"),
        (asked(requestedBy=""), "requestedBy"),
        (asked(requestedBy=3), "requestedBy"),
        (asked(parameters=[1]), "JSON object"),
        (asked(parameters=None, extra=1), "extra"),
        (asked(parametersJson="{}"), "not both"),
        (asked(requestId="x" * 65), "requestId"),
    ):
        answer = client.post("/reports", json=body, headers={"X-Correlation-Id": "t"})
        assert answer.status_code == 400, body
        assert part in answer.json()["detail"]
        assert answer.headers["X-Correlation-Id"] == "t"
    assert client.post("/reports", content=b"{").status_code == 400
    assert client.post("/reports", content=b"[]").status_code == 400
    assert client.post("/reports", content=b"x" * 300_000).status_code == 413
    assert client.get("/reports/none").status_code == 404
    assert client.get("/reports?limit=many").status_code == 400
    assert flow.store.counts() == {}


def test_a_request_is_cancelled_and_not_retried_over_http(served: tuple[Workflow, httpx.Client]) -> None:
    _, client = served
    request_id = client.post("/reports", json=asked()).json()["requestId"]
    cancelled = client.post(f"/reports/{request_id}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (202, "CANCELLED")
    assert client.post(f"/reports/{request_id}/cancel").status_code == 409
    assert client.post(f"/reports/{request_id}/retry").status_code == 409
    assert client.post(f"/reports/{request_id}/erase").status_code == 404
    assert client.post("/reports/none/cancel").status_code == 404
