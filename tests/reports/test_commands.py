"""`tidemark reports` and `tidemark listen` as a person and as a program use them."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from tidemark.cli import listen, reports
from tidemark.config.reading.load import load_settings
from tidemark.contract.errors import RetriableError
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic, produce
from tidemark.listener.meter import OUTCOMES, watched
from tidemark.monitoring.metrics import Metrics
from tidemark.reports.run import worker_of
from tidemark.reports.strategy import StrategyRegistry

if TYPE_CHECKING:
    from tests.reports.conftest import Echo

CONFIG = """
kafka: {{bootstrap-servers: "{bootstrap}"}}
connector:
  topics:
    orders:
      kafka-topic: orders
      schema: {{ddl: "id STRING"}}
      destination: {{bucket: ./tables, path: orders}}
reports:
  topic: {name}
  group-id: {name}-workers
  session-timeout: 6
  sweep-interval: 0.2
  retry: {{base: 0.05}}
metrics: {{enabled: true, port: 0}}
listener:
  topics: [{name}-in]
  group-id: {name}-in-group
  handler: "their_handler:handle"
  session-timeout: 6
  batch-interval: 0.1
"""

HANDLER = """
def handle(batch):
    for record in batch.records:
        with open("seen.txt", "a") as file:
            file.write(record.value.decode() + "\\n")
        if record.value == b"stop":
            from tidemark.contract.errors import NonRetriableError
            raise NonRetriableError("told to stop")
"""


class Project:
    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.name = f"cli-{uuid.uuid4().hex[:10]}"
        self.config = folder / "tidemark.yml"
        self.config.write_text(CONFIG.format(bootstrap=bootstrap, name=self.name))
        (folder / "their_handler.py").write_text(HANDLER)

    def run(self, app: Any, *arguments: str, code: int = 0) -> Any:
        """The JSON that the command prints; None if it failed as expected."""
        result = CliRunner().invoke(app, [*arguments, "--config", str(self.config), "--json"])
        if code:
            assert result.exit_code == code or getattr(result.exception, "exit_code", None) == code, (
                result.output
            )
            return None
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    def start(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        script = "from tidemark.cli.app import main; raise SystemExit(main())"
        return subprocess.Popen(
            [sys.executable, "-c", script, module, *arguments, "--config", str(self.config), "--json"],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def project(broker: EmbeddedBroker, tmp_path: Path) -> Project:
    return Project(broker.bootstrap, tmp_path)


def test_a_request_goes_from_submit_to_work_to_status_on_the_command_line(project: Project) -> None:
    submitted = project.run(
        reports.app, "submit", "NO_SUCH_TYPE", "-p", '{"n":1}', "--requested-by", "me", "--create-topics"
    )
    assert submitted["status"] == "SUBMITTED"
    worker = project.start("reports", "work", "--until-idle", "4")
    out, err = worker.communicate(timeout=60)
    assert worker.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["dead_lettered"] == 1
    found = project.run(reports.app, "status", submitted["requestId"])
    assert found["status"] == "FAILED"
    assert "NO_SUCH_TYPE" in found["error"]["message"]
    assert [row["requestId"] for row in project.run(reports.app, "status")] == [submitted["requestId"]]
    assert project.run(reports.app, "retry", submitted["requestId"])["status"] == "SUBMITTED"
    assert project.run(reports.app, "cancel", submitted["requestId"])["status"] == "CANCELLED"
    project.run(reports.app, "retry", submitted["requestId"], code=2)
    project.run(reports.app, "status", "none", code=2)


def test_the_archived_report_is_printed_when_it_is_asked_for(project: Project, echo: type[Echo]) -> None:
    project.run(
        reports.app, "submit", "ECHO", "-p", '{"a":1,"b":2}', "--request-id", "r-1", "--create-topics"
    )
    settings = load_settings(project.config)
    worker = worker_of(settings, strategies=StrategyRegistry().register(echo()))
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    again = ["submit", "ECHO", "-p", '{"a":1,"b":2}', "--request-id", "r-1", "--wait", "30", "--show"]
    found = project.run(reports.app, *again, "--requested-by", getpass.getuser())
    assert found["status"] == "COMPLETED"
    assert [row["name"] for row in found["report"]["rows"]] == ["a", "b"]
    shown = CliRunner().invoke(reports.app, ["status", "r-1", "--show", "--config", str(project.config)])
    assert "COMPLETED" in shown.stdout
    assert "ECHO" in shown.stdout
    worker.stop()
    thread.join(20)


@pytest.mark.guarantee("reports: lag per partition is monitored")
def test_a_worker_answers_with_its_metrics_when_it_is_scraped(project: Project, echo: type[Echo]) -> None:
    settings, metrics, failures = load_settings(project.config), Metrics(), iter((RetriableError("down"),))

    def fail_once(*_: object) -> None:
        for error in failures:
            raise error

    worker = worker_of(settings, strategies=StrategyRegistry().register(echo(fail_once)), metrics=metrics)
    project.run(reports.app, "submit", "NO_SUCH_TYPE", "--create-topics")
    asked = project.run(reports.app, "submit", "ECHO")["requestId"]
    thread = threading.Thread(target=worker.run, daemon=True)
    with watched(settings, metrics, lambda: worker.listener.heartbeat) as url:
        assert url is not None
        thread.start()
        deadline = time.monotonic() + 30
        while (
            metrics.value("tidemark_report_requests", status="COMPLETED") < 1 and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        time.sleep(1.2)  # the next look at the lag
        health = httpx.get(f"{url}/actuator/health", timeout=10).json()
        text = httpx.get(f"{url}/actuator/prometheus", timeout=10).text
        worker.stop()
        thread.join(20)
    group = f"{project.name}-workers"
    samples = {
        (s.name, *s.labels.values()): s.value for f in text_string_to_metric_families(text) for s in f.samples
    }
    records = {o: samples["tidemark_listener_records_total", group, o] for o in OUTCOMES}
    assert records == {"done": 1, "failed": 2, "dead-lettered": 1}
    assert samples["tidemark_listener_rewinds_total", group] >= 1
    assert samples["tidemark_listener_execution_seconds_count", group] == 3
    lags = {k[-1]: v for k, v in samples.items() if k[0] == "tidemark_listener_lag_records"}
    assert set(lags.values()) == {0}
    assert (
        samples["tidemark_report_requests", "COMPLETED"] == samples["tidemark_report_requests", "FAILED"] == 1
    )
    assert samples["tidemark_breaker_state", "reports/archive", "CLOSED"] == 1
    assert health["status"] == "UP"
    assert set(health["components"]) == {"listener", "kafka", "breakers"}
    assert project.run(reports.app, "status", asked)["status"] == "COMPLETED"


def test_wrong_use_ends_with_exit_code_2(project: Project) -> None:
    project.run(reports.app, "submit", "PERFORMANCE", "-p", "{", code=2)
    project.run(reports.app, "submit", "PERFORMANCE", "-p", "[]", code=2)


def wait_for_lines(path: Path, count: int) -> list[str]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= count:
            return lines
        time.sleep(0.1)
    raise AssertionError(f"{path.name} has not {count} lines")


@pytest.fixture
def topics(project: Project) -> Callable[..., None]:
    for name in (f"{project.name}-in", f"{project.name}-in-dlq"):
        create_topic(project.bootstrap, name, 1)
    return lambda *values: produce(project.bootstrap, f"{project.name}-in", values) and None


def test_the_listener_calls_the_configured_handler_and_ends_well_at_sigterm(
    project: Project, topics: Callable[..., None], tmp_path: Path
) -> None:
    topics(b"one", b"two")
    process = project.start("listen")
    assert wait_for_lines(tmp_path / "seen.txt", 2) == ["one", "two"]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["done"] == 2


def test_the_listener_ends_with_a_code_that_is_not_0_when_it_must_stop(
    project: Project, topics: Callable[..., None], tmp_path: Path
) -> None:
    topics(b"stop")
    process = project.start("listen")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "told to stop" in err


def test_a_handler_that_cannot_be_imported_is_wrong_configuration(project: Project) -> None:
    result = CliRunner().invoke(listen.app, ["--handler", "no_such:thing", "--config", str(project.config)])
    assert getattr(result.exception, "exit_code", None) == 2
    assert "no_such:thing" in str(result.exception)
