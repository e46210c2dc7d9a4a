"""`conf/deployment.yml` of dbx, generated from the bundle, for workspaces that still deploy with it."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import described

DEPLOYMENT_FILE = "conf/deployment.yml"
_HEAD = "# Written by `tidemark bundle dbx` from databricks.yml; do not edit.\n"
_UNKNOWN_TO_DBX = ("parameters", "environments")
_WITHOUT_A_PLACE = ("queue", "health", "permissions")
"""dbx requires an owner for an access list, and the bundle names none."""


class _Plain(yaml.SafeDumper):
    """Writes a repeated value in full, without YAML aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def deployment_of(source: BundleSource, *, node_type: str = "i3.xlarge") -> tuple[str, list[str]]:
    """The file's text, and a line for each part of the bundle that dbx does not support.

    `node_type`: of the clusters; the bundle leaves it to the deployer.
    """
    shipped = _shipped(source)
    environments: dict[str, Any] = {}
    unmapped: list[str] = []
    for target in source.targets:
        of_target = described(source, target, user="deployer")
        workflows = []
        for name, job in (of_target.resources.get("jobs") or {}).items():
            workflow, left_out = _workflow(job, shipped)
            for cluster in workflow.get("job_clusters") or []:
                cluster["new_cluster"] = {**cluster["new_cluster"], "node_type_id": node_type}
            workflows.append(workflow)
            unmapped += [f"{target}: job {name}: {each}" for each in left_out]
        unmapped += [
            f"{target}: {kind} {name}"
            for kind, named in of_target.resources.items()
            if kind != "jobs"
            for name in named
        ]
        environments[target] = {"workflows": workflows}
    content = {"build": {"commands": ["sh .ci/wheel"]}, "environments": environments}
    return _HEAD + yaml.dump(content, Dumper=_Plain, sort_keys=False, width=110), unmapped


def _shipped(source: BundleSource) -> dict[str, str]:
    """A parameter for each file of conf/: dbx uploads only the files that parameters name."""
    folder = source.root / "conf"
    names = sorted(p.relative_to(source.root).as_posix() for p in folder.rglob("*") if p.is_file())
    return {
        f"shipped_{i}": f"file:fuse://{name}" for i, name in enumerate(names, 1) if name != DEPLOYMENT_FILE
    }


def _workflow(job: dict[str, Any], shipped: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    """A job of the Jobs API 2.1 in dbx's form, and its unsupported parts. Parameters move into the notebook task."""
    workflow = copy.deepcopy(job)
    left_out: list[str] = [key for key in _WITHOUT_A_PLACE if key in workflow]
    parameters = {p["name"]: _portable(str(p["default"])) for p in workflow.get("parameters") or []}
    parameters = {name: "" if "${var." in value else value for name, value in parameters.items()} | shipped
    serverless = "environments" in workflow
    for key in (*_UNKNOWN_TO_DBX, *_WITHOUT_A_PLACE):
        workflow.pop(key, None)
    mail = {k: v for k, v in (workflow.pop("email_notifications", None) or {}).items() if v}
    if mail:
        workflow["email_notifications"] = mail
    for task in workflow.get("tasks") or []:
        notebook = task.get("notebook_task")
        if notebook:
            path = str(notebook["notebook_path"]).removeprefix("../").removesuffix(".py")
            task["notebook_task"] = {
                "notebook_path": f"/Repos/tidemark/{path}",
                "base_parameters": parameters,
            }
        # dbx itself adds the wheel that it builds to each task.
        task.pop("libraries", None)
        if task.pop("environment_key", None):
            task["job_cluster_key"] = "stream"
    if serverless:
        left_out.append("serverless compute; a job cluster instead")
        workflow["job_clusters"] = [{"job_cluster_key": "stream", "new_cluster": dict(_SMALL_CLUSTER)}]
    return workflow, left_out


_SMALL_CLUSTER: dict[str, Any] = {
    "spark_version": "19.x-scala2.13",
    "num_workers": 1,
    "data_security_mode": "DATA_SECURITY_MODE_DEDICATED",
}


def _portable(text: str) -> str:
    """A path below the bundle's files, as a path below dbx's files."""
    marker = "/files/"
    return "file:fuse://" + text.split(marker, 1)[1] if marker in text else text
