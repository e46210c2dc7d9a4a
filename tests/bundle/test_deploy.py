"""The bundle deployed to a workspace API on loopback: read back, deployed again, changed, destroyed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import DatabricksError
from tests.bundle.local_workspace import (
    LACKING,
    deploy,
    destroy,
    jobs_of,
    local_workspace,
    read_state,
    wanted_state,
)

from tidemark.bundle.source import read_bundle
from tidemark.bundle.target import described
from tidemark.bundle.typed import problem_of

ROOT = Path(__file__).parents[2]
TARGETS = ("dev", "staging", "prod")
WHEEL_BUILD = f"{sys.executable} -m uv build --quiet --wheel --offline --no-build-isolation --out-dir dist"


@contextmanager
def workspace_with_catalogs(folder: Path) -> Iterator[WorkspaceClient]:
    folder.mkdir(exist_ok=True)
    with local_workspace(folder) as client:
        for catalog in TARGETS:
            client.catalogs.create(name=catalog)
        yield client


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkspaceClient]:
    with workspace_with_catalogs(tmp_path_factory.mktemp("workspace")) as client:
        yield client


def say(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n{line}")  # noqa: T201


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_deployed_read_back_changed_and_destroyed(
    workspace: WorkspaceClient, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = read_bundle(ROOT)
    given = described(source, target, user="jane@example.com")
    lacking = {kind: sorted(given.resources[kind]) for kind in LACKING if kind in given.resources}
    say(capsys, f"{target}: not in the local API, held by typed models alone: {lacking or 'nothing'}")
    for kind, names in lacking.items():
        with pytest.raises(DatabricksError, match="not implemented"):
            workspace.api_client.do("GET", LACKING[kind])
        assert [problem_of(kind, given.resources[kind][name]) for name in names] == [""] * len(names)

    wanted = wanted_state(ROOT, given)
    assert {kind for kind, _ in wanted} >= {"schemas", "volumes", "secret_scopes", "files", "jobs"}
    where = (workspace, target, given.root_path)
    assert set(deploy(workspace, wanted, read_state(*where))) == set(wanted)
    assert read_state(*where) == wanted
    assert deploy(workspace, wanted, read_state(*where)) == []

    ingest = ("jobs", given.resources["jobs"]["ingest"]["name"])
    wanted[ingest]["settings"]["description"] = "changed"
    assert deploy(workspace, wanted, read_state(*where)) == [ingest]
    assert read_state(*where) == wanted

    destroy(workspace, wanted, given.root_path)
    assert read_state(*where) == {}


@pytest.mark.timeout(600)
def test_the_databricks_cli_deploys_and_destroys_the_bundle_when_it_is_installed(tmp_path: Path) -> None:
    executable = shutil.which("databricks")
    if executable is None:
        pytest.skip("no databricks executable on PATH: bundle validate, deploy, summary, destroy not run")
    folder = bundle_copy(tmp_path / "bundle")
    with workspace_with_catalogs(tmp_path / "workspace") as workspace:
        cli = Cli(executable, folder, environment_of(workspace, tmp_path))
        for target in TARGETS:
            assert "Validation OK" in cli.bundle(target, "validate", "--strict").stdout
        for kind in LACKING:
            for path in (folder / "resources").glob(f"*.{kind.removesuffix('s')}.yml"):
                path.unlink()
        for target in TARGETS:
            given = described(read_bundle(folder), target, user=USER)
            names = {job["name"] for job in given.resources["jobs"].values()}
            cli.bundle(target, "deploy")
            assert {job["settings"]["name"] for job in jobs_of(workspace)} == names
            again = cli.bundle(target, "deploy")
            assert "0 created, 0 changed, 0 deleted" in again.stdout + again.stderr
            summary = cli.bundle(target, "summary").stdout
            assert [name for name in names if name not in summary] == []
            if target == "prod":  # the schema holds the data
                refused = cli.bundle(target, "destroy", "--auto-approve", code=1)
                assert "resources.schemas.streaming has lifecycle.prevent_destroy" in refused.stderr
            else:
                cli.bundle(target, "destroy", "--auto-approve")
                assert jobs_of(workspace) == []
                assert [s.name for s in workspace.schemas.list(target)] == ["default"]


@dataclass
class Cli:
    """The databricks CLI in a copy of the bundle."""

    executable: str
    folder: Path
    environment: dict[str, str]

    def bundle(self, target: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [self.executable, "bundle", *words, "--target", target]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


USER = "minilake-user"
"""Who the local API says that everybody is."""


def bundle_copy(folder: Path) -> Path:
    """The bundle as a clone has it; its wheel is built by this environment, without network."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, path)
    main = folder / "databricks.yml"
    text = main.read_text(encoding="utf-8")
    assert "build: sh .ci/wheel" in text
    # Built once: a wheel that is built again has a newer time, and so a new version.
    build = f"test -e dist/*.whl || {WHEEL_BUILD}"
    main.write_text(text.replace("build: sh .ci/wheel", f"build: {build}"), encoding="utf-8")
    return folder


def environment_of(workspace: WorkspaceClient, home: Path) -> dict[str, str]:
    """The CLI logs in to the local API and to nothing else: no profile, no proxy."""
    kept = {k: v for k, v in os.environ.items() if not re.match(r"DATABRICKS_|BUNDLE_|.*_proxy$", k, re.I)}
    return {
        **kept,
        "HOME": str(home),
        "DATABRICKS_CONFIG_FILE": str(home / "no-profiles"),
        "DATABRICKS_HOST": str(workspace.config.host),
        "DATABRICKS_TOKEN": "local",
        "BUNDLE_VAR_kafka_bootstrap": "localhost:9092",
        "BUNDLE_VAR_node_type_id": "small",
        "BUNDLE_VAR_warehouse_id": "a-warehouse",
        "NO_PROXY": "*",
    }
