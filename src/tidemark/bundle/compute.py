"""The compute of a target's jobs, in a generated file: a variable cannot replace one block by another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from tidemark.bundle.finding import Found
from tidemark.bundle.rules.jobs import SERVERLESS_TRIGGER, TRIGGER_PARAMETER
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.config.reading.faults import Place

STREAMS = "ingest"
"""The job whose tasks are streaming queries, all on one cluster; it has a `trigger` parameter."""
_TASKS = {STREAMS: ("ingest", "dead_letters")}
"""Jobs of several tasks; every other job has one task of the same name."""
_WHEEL = "../dist/*.whl"
_EVERY_FIVE_MINUTES = "0 0/5 * * * ?"
_FIRST_LINE = re.compile(r"# Compute of target (\S+): (\S+)\.")


class Flavour(StrEnum):
    """How a target's jobs run.

    `job-cluster`: streams run continuously on a cluster of their own. `serverless`: a schedule starts them,
    they read the available records and end; there is no cost in between.
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
    """The jobs of the bundle that are named outside targets."""
    return sorted(r.name for r in source.resources() if r.kind == "jobs" and r.path[0] == "resources")


def file_of(source: BundleSource, target: str) -> Path:
    return source.root / "resources" / f"compute.{target}.yml"


def flavour_of(source: BundleSource, target: str) -> Flavour | None:
    """The flavour that the first line of the target's file names; None where there is no such file."""
    try:
        match = _FIRST_LINE.match(file_of(source, target).read_text(encoding="utf-8"))
        return Flavour(match.group(2)) if match else None
    except (OSError, ValueError):
        return None


def compute_drift(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """The file of each target equals what the command writes for the present jobs."""
    for target in (described.target for described in targets):
        flavour, path = flavour_of(source, target), file_of(source, target)
        if flavour and path.read_text(encoding="utf-8") != compute_file(target, flavour, job_names(source)):
            place = Place(path.relative_to(source.root).as_posix(), 1)
            problem = "it differs from what the command writes for these jobs"
            yield place, problem, f"tidemark bundle compute {flavour} --target {target}"


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
