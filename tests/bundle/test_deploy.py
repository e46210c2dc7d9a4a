"""The bundle deployed to a workspace API on loopback: read back, deployed again, changed, destroyed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient

from tidemark.bundle.source import read_bundle
from tidemark.bundle.target import Described, described

ROOT = Path(__file__).parents[2]
NOT_HELD_BY_THE_EMULATOR = {"alerts", "apps", "dashboards"}
"""Kinds that the local API lacks; the typed models of `bundle check` hold them."""


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceClient]:
    folder = tmp_path_factory.mktemp("workspace")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "minilake.cli", "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, "MINILAKE_DATA_DIR": str(folder)},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield WorkspaceClient(host=f"http://127.0.0.1:{port}", token="local")
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the local workspace API ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the local workspace API does not answer")


def deploy(workspace: WorkspaceClient, wanted: Described) -> list[str]:
    """Bring the workspace to what is described; what had to be changed, by name."""
    changed = []
    there = {j["settings"]["name"]: j for j in _jobs(workspace)}
    for job in wanted.resources["jobs"].values():
        found = there.get(job["name"])
        if found is None:
            workspace.api_client.do("POST", "/api/2.2/jobs/create", body=job)
        elif found["settings"] == job:
            continue
        else:
            body = {"job_id": found["job_id"], "new_settings": job}
            workspace.api_client.do("POST", "/api/2.2/jobs/reset", body=body)
        changed.append(job["name"])
    schema = wanted.resources["schemas"]["streaming"]
    catalog, name = schema["catalog_name"], schema["name"]
    if catalog not in {c.name for c in workspace.catalogs.list()}:
        workspace.catalogs.create(name=catalog)
    if name not in {s.name for s in workspace.schemas.list(catalog)}:
        workspace.schemas.create(name=name, catalog_name=catalog, comment=schema["comment"])
        changed.append(name)
    scope = wanted.resources["secret_scopes"]["kafka"]["name"]
    if scope not in {s.name for s in workspace.secrets.list_scopes()}:
        workspace.secrets.create_scope(scope)
        changed.append(scope)
    return changed


def _jobs(workspace: WorkspaceClient) -> list[dict[str, Any]]:
    listed: Any = workspace.api_client.do("GET", "/api/2.2/jobs/list")
    return [_without_nones(job) for job in listed["jobs"]]


def _without_nones(value: Any) -> Any:
    """The emulator answers with every key it knows, and with the API's defaults."""
    if isinstance(value, dict):
        return {k: _without_nones(v) for k, v in value.items() if v is not None and v != "ALL_SUCCESS"}
    return [_without_nones(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("target", ["dev", "staging", "prod"])
def test_a_target_is_deployed_read_back_changed_and_destroyed(
    workspace: WorkspaceClient, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = described(read_bundle(ROOT), target, user="jane@example.com")
    lacking = sorted(NOT_HELD_BY_THE_EMULATOR & set(wanted.resources))
    with capsys.disabled():
        print(f"\n{target}: by typed models alone: {', '.join(lacking) or 'nothing'}")  # noqa: T201

    assert len(deploy(workspace, wanted)) == len(wanted.resources["jobs"]) + 2
    read_back = {j["settings"]["name"]: j["settings"] for j in _jobs(workspace)}
    assert read_back == {job["name"]: job for job in wanted.resources["jobs"].values()}
    assert deploy(workspace, wanted) == []

    wanted.resources["jobs"]["ingest"]["description"] = "changed"
    assert deploy(workspace, wanted) == [wanted.resources["jobs"]["ingest"]["name"]]

    for job in _jobs(workspace):
        workspace.jobs.delete(job["job_id"])
    assert _jobs(workspace) == []
