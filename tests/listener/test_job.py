"""Batches as runs of a Databricks job: in a workspace emulator, and on a Jobs API with given answers."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from databricks.sdk import WorkspaceClient
from databricks.sdk.core import Config
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tidemark.config.listener import JobExecutorOptions
from tidemark.dev.kafka_server import free_ports
from tidemark.listener import Batch, BatchResult, ListenerStopped, Record, Scope
from tidemark.listener.job import DatabricksJobExecutor, JobExecution, hash_of

if TYPE_CHECKING:
    from tests.listener.conftest import Scene


class JobsApi:
    """The part of the Jobs API that is used, with the run states a test asks for. Tokens are honoured."""

    def __init__(self) -> None:
        self.states: list[dict[str, Any]] = []
        self.started: list[dict[str, Any]] = []
        self.cancelled: list[int] = []
        self.runs: dict[str, int] = {}
        self.refuse: list[tuple[int, dict[str, str]]] = []
        self.on_start: Callable[[dict[str, Any]], None] = lambda body: None

    async def run_now(self, request: Request) -> JSONResponse:
        body = await request.json()
        if self.refuse:
            status, error = self.refuse.pop(0)
            return JSONResponse(error, status_code=status)
        token = body["idempotency_token"]
        if token not in self.runs:
            self.runs[token] = len(self.runs) + 1
            self.started.append(body)
            self.on_start(body)
        return JSONResponse({"run_id": self.runs[token]})

    async def get_run(self, request: Request) -> JSONResponse:
        if not self.states:
            return JSONResponse({"run_id": 1, "state": {"life_cycle_state": "RUNNING"}})
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return JSONResponse({"run_id": int(request.query_params["run_id"]), "state": state})

    async def cancel(self, request: Request) -> JSONResponse:
        self.cancelled.append((await request.json())["run_id"])
        return JSONResponse({})

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/api/{version}/jobs/run-now", self.run_now, methods=["POST"]),
                Route("/api/{version}/jobs/runs/get", self.get_run),
                Route("/api/{version}/jobs/runs/cancel", self.cancel, methods=["POST"]),
            ]
        )


@pytest.fixture
def api() -> Iterator[tuple[JobsApi, WorkspaceClient]]:
    jobs = JobsApi()
    (port,) = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(jobs.app(), host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield jobs, client(f"http://127.0.0.1:{port}")
    server.should_exit = True
    thread.join(10)


def client(host: str) -> WorkspaceClient:
    config = Config(host=host, token="none", auth_type="pat", retry_timeout_seconds=1, http_timeout_seconds=5)
    return WorkspaceClient(config=config)


def batch(count: int = 2, submission: int = 1) -> Batch:
    records = tuple(
        Record("t", 0, o, b"k", bytes([o]), headers=(("h", None), ("h", b"1"))) for o in range(count)
    )
    return Batch(records, submission=submission, attempt=submission)


def run(jobs: tuple[JobsApi, WorkspaceClient], folder: Path, one: Batch, **options: Any) -> JobExecution:
    settings = JobExecutorOptions(**{"job_id": 7, "location": str(folder), "poll_interval": 0.05, **options})
    return DatabricksJobExecutor(jobs[1], settings).submit(one)


def final(execution: JobExecution) -> BatchResult:
    for _ in range(200):
        result = execution.wait(0.05)
        if result is not None:
            return result
    raise AssertionError("the run does not end")


def ended(result: str, message: str = "") -> dict[str, Any]:
    return {"life_cycle_state": "TERMINATED", "result_state": result, "state_message": message}


@pytest.mark.guarantee("listener: the final status after completion")
def test_the_final_state_is_waited_for_when_a_run_goes_through_others(api: Any, tmp_path: Path) -> None:
    api[0].states = [
        {"life_cycle_state": s}
        for s in ("QUEUED", "PENDING", "BLOCKED", "WAITING_FOR_RETRY", "RUNNING", "TERMINATING")
    ] + [ended("SUCCESS")]
    read: list[str] = []
    api[0].on_start = lambda body: read.append(Path(body["job_parameters"]["batch"]).read_text())
    execution = run(api, tmp_path, batch())
    assert execution.wait(0) is None
    assert final(execution).succeeded
    (first, _) = [json.loads(line) for line in read[0].splitlines()]
    assert (first["topic"], first["partition"], first["offset"]) == ("t", 0, 0)
    assert base64.b64decode(first["value"]) == b"\x00"
    assert first["headers"] == [["h", None], ["h", base64.b64encode(b"1").decode()]]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("state", "scope"),
    [
        (ended("FAILED", "boom"), Scope.RECORD),
        (ended("TIMEDOUT"), Scope.RECORD),
        (ended("SUCCESS_WITH_FAILURES"), Scope.RECORD),
        (ended("CANCELED"), Scope.DEPENDENCY),
        (ended("MAXIMUM_CONCURRENT_RUNS_REACHED"), Scope.DEPENDENCY),
        ({"life_cycle_state": "SKIPPED"}, Scope.DEPENDENCY),
        ({"life_cycle_state": "INTERNAL_ERROR", "state_message": "no cluster"}, Scope.DEPENDENCY),
    ],
)
def test_the_whole_batch_fails_when_the_run_ends_badly(
    api: Any, tmp_path: Path, state: dict[str, Any], scope: Scope
) -> None:
    api[0].states = [state]
    result = final(run(api, tmp_path, batch()))
    assert result.whole
    assert {failure.scope for failure in result.failures.values()} == {scope}
    assert state.get("state_message", "") in result.failures[0].message


def test_single_records_fail_when_the_job_says_which(api: Any, tmp_path: Path) -> None:
    api[0].states = [ended("SUCCESS")]
    written = json.dumps({"failed": {"1": "bad"}, "untouched": [3]})
    api[0].on_start = lambda body: Path(body["job_parameters"]["result"]).write_text(written) and None
    result = final(run(api, tmp_path, batch(4)))
    assert [result.done(index) for index in range(4)] == [True, False, True, False]
    assert result.failures[1].message == "bad"


@pytest.mark.parametrize("written", ["{", "[]", '{"failed": {"9": "outside"}}', '{"untouched": ["x"]}'])
def test_nothing_counts_as_done_when_the_jobs_result_cannot_be_read(
    api: Any, tmp_path: Path, written: str
) -> None:
    api[0].states = [ended("SUCCESS")]
    api[0].on_start = lambda body: Path(body["job_parameters"]["result"]).write_text(written) and None
    result = final(run(api, tmp_path, batch()))
    assert not any(result.done(index) for index in range(2))


def test_one_run_is_started_when_a_batch_is_handed_over_again_after_a_crash(api: Any, tmp_path: Path) -> None:
    api[0].states = [ended("SUCCESS")]
    first, again = run(api, tmp_path, batch()), run(api, tmp_path, batch())
    assert first.run_id == again.run_id
    assert len(api[0].started) == 1
    assert run(api, tmp_path, batch(submission=2)).run_id != first.run_id
    assert hash_of(batch()) != hash_of(batch(3))
    assert {len(body["idempotency_token"]) for body in api[0].started} == {61}


def test_a_batch_is_run_again_when_it_comes_again_after_its_run_has_ended(api: Any, tmp_path: Path) -> None:
    """As after the group's offsets were set back: coordinates, content and count are those of before."""
    api[0].states = [ended("SUCCESS")]
    for runs in (1, 2):
        assert final(run(api, tmp_path, batch())).succeeded
        assert len(api[0].started) == runs
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("again", ["the topic was created again", "the run must have ended long ago"])
def test_no_run_is_taken_for_the_batchs_own_when_one_was_left_behind_and(
    api: Any, tmp_path: Path, again: str
) -> None:
    """A listener died under its run, which is found at once and not later."""
    left = run(api, tmp_path, replace(batch(), topic_ids={"t": "one"}), timeout=60)
    assert run(api, tmp_path, replace(batch(), topic_ids={"t": "one"}), timeout=60).run_id == left.run_id
    if again == "the topic was created again":
        found = run(api, tmp_path, replace(batch(), topic_ids={"t": "two"}), timeout=60)
    else:
        (file,) = tmp_path.glob("*.jsonl")
        os.utime(file, (time.time() - 61,) * 2)
        found = run(api, tmp_path, replace(batch(), topic_ids={"t": "one"}), timeout=60)
    assert found.run_id != left.run_id
    assert len(api[0].started) == 2


def test_the_run_is_cancelled_when_it_takes_too_long(api: Any, tmp_path: Path) -> None:
    execution = run(api, tmp_path, batch(), timeout=0.3)
    result = final(execution)
    assert result.failures[0].condition == "TIMEDOUT"
    assert api[0].cancelled == [execution.run_id]


@pytest.mark.parametrize(
    ("status", "scope"), [(401, Scope.PROCESS), (404, Scope.PROCESS), (400, Scope.DEPENDENCY)]
)
def test_a_refused_start_stops_or_waits_by_its_kind(
    api: Any, tmp_path: Path, status: int, scope: Scope
) -> None:
    api[0].refuse = [(status, {"error_code": "X", "message": "no"})]
    result = final(run(api, tmp_path, batch()))
    assert result.failures[0].scope is scope


def test_records_are_committed_when_their_run_succeeds_and_a_stop_cancels_open_runs(
    api: Any, tmp_path: Path, scene: Callable[..., Scene]
) -> None:
    one = scene()
    one.fill([4])
    api[0].states = [{"life_cycle_state": "RUNNING"}, ended("FAILED"), ended("SUCCESS")]
    options = JobExecutorOptions(job_id=7, location=str(tmp_path), poll_interval=0.05)
    one.listen(executor=DatabricksJobExecutor(api[1], options), batch_size=4, batch_interval=1)
    one.wait_committed({0: 4})
    assert len(api[0].started) == 2
    assert [body["job_parameters"]["attempt"] for body in api[0].started] == ["1", "2"]
    one.running.pop().stop()
    one.commit(p0=0)
    one.listen(executor=DatabricksJobExecutor(api[1], options), batch_size=4, batch_interval=1)
    one.wait_committed({0: 4})
    assert len(api[0].started) == 3, "a group that was set back has its records run again"
    api[0].states = [{"life_cycle_state": "RUNNING"}]
    one.fill([1])
    one.wait(lambda: len(api[0].started) == 4)
    running = one.running[0]
    running.listener._settings = running.listener._settings.model_copy(update={"shutdown_timeout": 0.2})
    running.stop()
    assert api[0].cancelled == [4]
    assert one.committed() == {0: 4}


def test_the_listener_stops_when_the_job_is_gone(
    api: Any, tmp_path: Path, scene: Callable[..., Scene]
) -> None:
    one = scene()
    one.fill([1])
    api[0].refuse = [(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no job 7"})]
    options = JobExecutorOptions(job_id=7, location=str(tmp_path), poll_interval=0.05)
    running = one.listen(executor=DatabricksJobExecutor(api[1], options))
    assert running.ended()
    assert isinstance(running.raised, ListenerStopped)
    assert one.committed() == {}
    one.running.clear()


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[WorkspaceClient]:
    (port,) = free_ports(1)
    with (tmp_path / "emulator.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "minilake", "--port", str(port)],
            stdout=output,
            stderr=output,
            cwd=tmp_path,
        )
    host = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                httpx.get(f"{host}/api/2.2/jobs/list", timeout=1)
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield client(host)
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize(("statement", "succeeds"), [("SELECT 1", True), ("SELECT * FROM nowhere", False)])
def test_a_batch_ends_as_its_run_does_in_a_workspace(
    emulator: WorkspaceClient, tmp_path: Path, statement: str, succeeds: bool
) -> None:
    warehouse = emulator.api_client.do(
        "POST", "/api/2.0/sql/warehouses", body={"name": "w", "cluster_size": "Small"}
    )
    query = emulator.api_client.do(
        "POST", "/api/2.0/sql/queries", body={"query": {"display_name": "q", "query_text": statement}}
    )
    task = {
        "task_key": "work",
        "sql_task": {"warehouse_id": warehouse["id"], "query": {"query_id": query["id"]}},
    }
    job = emulator.api_client.do("POST", "/api/2.2/jobs/create", body={"name": "work", "tasks": [task]})
    options = JobExecutorOptions(job_id=job["job_id"], location=str(tmp_path / "batches"), poll_interval=0.1)
    execution = DatabricksJobExecutor(emulator, options).submit(batch())
    assert final(execution).succeeded is succeeds
