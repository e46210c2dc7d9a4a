"""The file for dbx says what the bundle says."""

from __future__ import annotations

from pathlib import Path

import yaml

from tidemark.bundle.dbx import DEPLOYMENT_FILE, deployment_of
from tidemark.bundle.source import read_bundle

ROOT = Path(__file__).parents[2]


def test_the_file_for_dbx_is_what_the_bundle_writes_today() -> None:
    text, _ = deployment_of(read_bundle(ROOT))
    assert (ROOT / DEPLOYMENT_FILE).read_text(encoding="utf-8") == text, "run `make dbx`"


def test_each_target_has_every_job_and_what_dbx_lacks_is_listed() -> None:
    source = read_bundle(ROOT)
    text, unmapped = deployment_of(source)
    environments = yaml.safe_load(text)["environments"]
    assert list(environments) == list(source.targets)
    jobs = {path.stem for path in (ROOT / "notebooks").glob("*.py")}
    for environment in environments.values():
        workflows = environment["workflows"]
        tasks = [task for w in workflows for task in w["tasks"]]
        assert {task["task_key"] for task in tasks} == jobs
        assert all(w["max_concurrent_runs"] == 1 for w in workflows)
        shipped = {value for task in tasks for value in task["notebook_task"]["base_parameters"].values()}
        assert shipped >= {
            f"file:fuse://{path.relative_to(ROOT).as_posix()}"
            for path in (ROOT / "conf").rglob("*")
            if path.is_file() and path.name != "deployment.yml"
        }
        modes = {c["new_cluster"].get("data_security_mode") for w in workflows for c in w["job_clusters"]}
        assert modes == {"DATA_SECURITY_MODE_DEDICATED"}
        assert not any("${" in str(w) for w in workflows), "a reference that dbx does not know"
        clusters = [{c["job_cluster_key"] for c in w["job_clusters"]} for w in workflows]
        assert all(w["tasks"][0]["job_cluster_key"] in c for w, c in zip(workflows, clusters, strict=True))
    assert "prod: dashboards streams" in unmapped
    assert any("health" in line for line in unmapped)
