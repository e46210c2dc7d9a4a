"""The compute of a target's jobs. A variable cannot swap one block for another, so a file is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from tidemark.bundle.finding import Finding
from tidemark.bundle.rules.jobs import SERVERLESS_TRIGGER, TRIGGER_PARAMETER
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described

STREAMS = "ingest"
"""The job whose runs are streaming queries, all of them on one cluster; it has a `trigger` parameter."""
_TASKS = {STREAMS: ("ingest", "dead_letters")}
"""Jobs of several tasks; the others have one of their own name."""
_WHEEL = "../dist/*.whl"
_EVERY_FIVE_MINUTES = "0 0/5 * * * ?"
_FIRST_LINE = re.compile(r"# Compute of target (\S+): (\S+)\.")


class Flavour(StrEnum):
    """How a target's jobs run.

    `job-cluster`: streams are always on, on a cluster of their own. `serverless`: streams read what is
    there and end, started anew on a schedule; nothing is paid for in between.
    """

    JOB_CLUSTER = "job-cluster"
    SERVERLESS = "serverless"


def compute_file(target: str, flavour: Flavour, jobs: Sequence[str]) -> str:
    """The text of `resources/compute.<target>.yml` for these jobs."""
    of_job = _on_job_cluster if flavour is Flavour.JOB_CLUSTER else _on_serverless
    content = {"targets": {target: {"resources": {"jobs": {name: of_job(name) for name in jobs}}}}}
    written = f"tidemark bundle compute {flavour} --target {target}"
    head = f"# Compute of target {target}: {flavour}. Written by `{written}`; do not edit.\n"
    return head + yaml.safe_dump(content, sort_keys=False, width=110)


def job_names(source: BundleSource) -> list[str]:
    """The jobs of the bundle, as they are named in their own files."""
    return sorted(
        n for _, path, kind, n, _ in source.resources() if kind == "jobs" and path[0] == "resources"
    )


def file_of(source: BundleSource, target: str) -> Path:
    return source.root / "resources" / f"compute.{target}.yml"


def flavour_of(source: BundleSource, target: str) -> Flavour | None:
    """The flavour that the target's file says it has; None where there is no such file."""
    try:
        match = _FIRST_LINE.match(file_of(source, target).read_text(encoding="utf-8"))
        return Flavour(match.group(2)) if match else None
    except (OSError, ValueError):
        return None


def compute_drift(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """The file of each target is what the command would write for the jobs there are."""
    for described in targets:
        flavour = flavour_of(source, described.target)
        if flavour is None:
            continue
        path = file_of(source, described.target)
        if path.read_text(encoding="utf-8") != compute_file(described.target, flavour, job_names(source)):
            yield Finding(
                path.relative_to(source.root).as_posix(),
                1,
                "compute-drift",
                "it is not what the command writes for these jobs",
                f"tidemark bundle compute {flavour} --target {described.target}",
            )


def _on_job_cluster(name: str) -> dict[str, Any]:
    job: dict[str, Any] = {}
    if name == STREAMS:
        job["continuous"] = {"task_retry_mode": "ON_FAILURE"}
        job["parameters"] = [{"name": TRIGGER_PARAMETER, "default": "processingTime"}]
    job["tasks"] = [
        {"task_key": task, "job_cluster_key": "stream", "libraries": [{"whl": _WHEEL}]}
        for task in _TASKS.get(name, (name,))
    ]
    job["job_clusters"] = [{"job_cluster_key": "stream", "new_cluster": "${var.stream_cluster}"}]
    return job


def _on_serverless(name: str) -> dict[str, Any]:
    job: dict[str, Any] = {}
    if name == STREAMS:
        job["schedule"] = {"quartz_cron_expression": _EVERY_FIVE_MINUTES, "timezone_id": "UTC"}
        job["parameters"] = [{"name": TRIGGER_PARAMETER, "default": SERVERLESS_TRIGGER}]
    job["tasks"] = [{"task_key": task, "environment_key": "wheel"} for task in _TASKS.get(name, (name,))]
    spec = {"environment_version": "${var.environment_version}", "dependencies": [_WHEEL]}
    job["environments"] = [{"environment_key": "wheel", "spec": spec}]
    return job
