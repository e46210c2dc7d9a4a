"""The console as a Databricks App: its own command and variables, in a process of its own, over real HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.bundle.local_workspace import local_workspace
from tests.runtimes.servers import connect_server, free_port
from tests.runtimes.test_runtimes import python_of

from tidemark.bundle.source import read_bundle
from tidemark.bundle.target import described
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, create_topic, produce
from tidemark.dev.samples import sample_events

ROOT = Path(__file__).parents[2]
TOKEN = "the-token-of-the-console"
CLIENT = "databricks-connect-19.3"


@pytest.mark.timeout(900)
def test_the_console_becomes_healthy_and_shows_the_breakers_when_it_runs_as_an_app(
    tmp_path: Path, broker: EmbeddedBroker
) -> None:
    create_topic(broker.bootstrap, "user.events.v1", 2)
    records = [event.record for event in sample_events(50)]
    # With the time of now: the samples' own is long ago.
    produce(broker.bootstrap, "user.events.v1", [SampleRecord(r.value, r.key, r.headers) for r in records])
    app = described(read_bundle(ROOT), "prod").resources["apps"]["console"]
    given = {each["name"]: each.get("value", "") for each in app["config"]["env"]}
    given |= {
        "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap,
        "TIDEMARK_CATALOG": "spark_catalog",
        "TIDEMARK_STATE_DIR": str(tmp_path / "state-of-app"),
        "TIDEMARK_TOKEN": TOKEN,
    }
    assert {*given} >= {"TIDEMARK_TARGET", "TIDEMARK_SCHEMA", "TIDEMARK_SECRET_SCOPE"}
    folder = deployed(tmp_path / "app")
    (tmp_path / "workspace").mkdir()
    with (
        connect_server(tmp_path, server=python_of("spark-4.2"), worker=python_of("spark-4.2")) as remote,
        local_workspace(tmp_path / "workspace") as workspace,
    ):
        given |= {"SPARK_REMOTE": remote, "DATABRICKS_HOST": str(workspace.config.host)}
        given |= {"DATABRICKS_TOKEN": "local", "NO_PROXY": "*"}
        land(folder, given, tmp_path)
        with started(app["config"]["command"], folder, given, tmp_path) as client:
            stream = ("user.events.v1 → spark_catalog.streaming.user_events", "badge FRESH")
            page = shown(client, "user-events/table", *stream)
            health = client.get("/actuator/health").json()
            assert health["status"] == "UP", health
            assert '<td>user-events/table</td><td><span class="badge CLOSED">CLOSED</span></td>' in page
            assert httpx.get(str(client.base_url), trust_env=False).status_code in (303, 401)


def deployed(folder: Path) -> Path:
    """What a deploy uploads for the app: start.sh, the wheel and conf/."""
    folder.mkdir()
    shutil.copy(ROOT / "app" / "start.sh", folder)
    shutil.copytree(ROOT / "conf", folder / "conf")
    build = ["uv", "build", "--quiet", "--wheel", "--offline", "--no-build-isolation"]
    subprocess.run(
        [sys.executable, "-m", *build, "--python", sys.executable, "--out-dir", str(folder), str(ROOT)],
        check=True,
        timeout=120,
    )
    return folder


def land(folder: Path, given: dict[str, str], home: Path) -> None:
    """A job's work, with a state folder of its own."""
    environ = {**os.environ, **given, "TIDEMARK_STATE_DIR": str(home / "state-of-job")}
    environ.pop("PYSPARK_SUBMIT_ARGS", None)
    command = [python_of(CLIENT), str(ROOT / "tests/runtimes/land.py"), str(folder / "conf/tidemark.yml")]
    done = subprocess.run(
        [*command, str(home / "checkpoints")], capture_output=True, text=True, timeout=300, env=environ
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-10000:]


@contextmanager
def started(command: list[str], folder: Path, given: dict[str, str], home: Path) -> Iterator[httpx.Client]:
    """The app once it is ready. On its PATH: uv, the system, and a Python 3.12."""
    tools = home / "tools"
    tools.mkdir()
    (tools / "uv").symlink_to(Path(sys.executable).parent / "uv")
    python = Path(python_of(CLIENT)).resolve().parent
    kept = ("HOME", "LANG", "SSL_", "UV_", "PIP_")
    environ = {name: value for name, value in os.environ.items() if name.startswith(kept)}
    environ |= {**given, "PATH": f"{tools}:/usr/bin:/bin:{python}", "DATABRICKS_APP_PORT": str(free_port())}
    log = home / "app.log"
    with log.open("w") as said:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=said, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{environ['DATABRICKS_APP_PORT']}"
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/html"}
        with httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False) as client:
            wait_for(client, process, log)
            yield client
    finally:
        process.terminate()
        process.wait(30)


def wait_for(client: httpx.Client, process: subprocess.Popen[Any], log: Path) -> None:
    """Until the app says that it is ready, which needs no token."""
    deadline, answer = time.monotonic() + 300, "nothing"
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            found = client.get("/actuator/health/readiness", headers={"Authorization": ""})
        except httpx.TransportError:
            time.sleep(1)
            continue
        answer = found.text
        if found.status_code == 200:
            return
        time.sleep(1)
    raise AssertionError(f"{answer}\n{log.read_text()}")


def shown(client: httpx.Client, *texts: str) -> str:
    """The page, once it shows all these texts."""
    deadline = time.monotonic() + 90
    while True:
        page = client.get("/").text
        if all(text in page for text in texts):
            return page
        assert time.monotonic() < deadline, page
        time.sleep(1)
