"""Rules of jobs: triggers, runs at a time, compute, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidemark.bundle.configuration import workers_of
from tidemark.bundle.finding import Finding
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described

WORKER = "report_worker"
TRIGGERS = ("continuous", "schedule", "trigger")
TRIGGER_PARAMETER = "trigger"
SERVERLESS_TRIGGER = "availableNow"
_CODE = ("notebook_task", "python_wheel_task", "spark_python_task")
_COMPUTE = ("job_cluster_key", "environment_key", "new_cluster", "existing_cluster_id")


def one_trigger(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A job starts by one of continuous, schedule and trigger at most."""
    for where, job in _jobs(source, targets):
        given = [key for key in TRIGGERS if key in job]
        if len(given) > 1:
            yield where.finding("one-trigger", f"has both {' and '.join(given)}", "keep one", given[-1])


def max_concurrent_runs(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """One run at a time: two runs of a stream share a checkpoint. Unset, development mode makes it four.

    Report workers share nothing but their database: as many may run as the configuration says.
    """
    for where, job in _jobs(source, targets):
        most = workers_of(source, where.described) if where.name == WORKER else 1
        runs = job.get("max_concurrent_runs")
        if runs != most:
            says = "does not set max_concurrent_runs" if runs is None else f"allows {runs} runs at a time"
            fix = f"max_concurrent_runs: {most}"
            if where.name == WORKER:
                fix = f"set the variable report_workers to reports.workers of conf/, which is {most}"
            yield where.finding("max-concurrent-runs", says, fix, "max_concurrent_runs")


def parameter_is_text(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Job parameters are texts; a number is refused only at deploy."""
    for where, job in _jobs(source, targets):
        for i, parameter in enumerate(job.get("parameters") or []):
            default = parameter.get("default")
            if not isinstance(default, str):
                name = parameter.get("name")
                problem = f"parameter {name} has the default {default!r}, which is no text"
                yield where.finding(
                    "parameter-is-text", problem, f'write "{default}"', "parameters", i, "default"
                )


def continuous_job(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A continuous job restarts by itself: its tasks have no order and no retries of their own."""
    for where, job in _jobs(source, targets):
        if "continuous" not in job:
            continue
        for i, task in enumerate(job.get("tasks") or []):
            for key in ("depends_on", "max_retries"):
                if key in task:
                    yield where.finding(
                        "continuous-job",
                        f"is continuous, and a task has {key}",
                        "take it out; a continuous job restarts with a backoff of its own",
                        "tasks",
                        i,
                        key,
                    )


def compute(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Each task that runs code names compute that the job defines."""
    for where, job in _jobs(source, targets):
        clusters = {c.get("job_cluster_key") for c in job.get("job_clusters") or []}
        environments = {e.get("environment_key") for e in job.get("environments") or []}
        for i, task in enumerate(job.get("tasks") or []):
            given = [key for key in _COMPUTE if key in task]
            key = task.get("task_key")
            if not given and any(kind in task for kind in _CODE):
                fix = "tidemark bundle compute writes it for a target"
                yield where.finding("compute", f"task {key} names no compute", fix, "tasks", i)
            for kind, there in (("job_cluster_key", clusters), ("environment_key", environments)):
                if kind in task and task[kind] not in there:
                    problem = f"task {key} has {kind} {task[kind]}, which the job does not define"
                    fix = f"define it, or use {', '.join(map(str, there)) or 'tidemark bundle compute'}"
                    yield where.finding("compute", problem, fix, "tasks", i, kind)


def serverless(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Serverless tasks take packages from their environment, and streams there only run to an end."""
    for where, job in _jobs(source, targets):
        tasks = [(i, t) for i, t in enumerate(job.get("tasks") or []) if "environment_key" in t]
        for i, task in tasks:
            if "libraries" in task:
                fix = "put them into the environment's spec.dependencies"
                problem = "is serverless, and a task has libraries"
                yield where.finding("serverless", problem, fix, "tasks", i, "libraries")
        triggers = [
            (i, p)
            for i, p in enumerate(job.get("parameters") or [])
            if p.get("name") == TRIGGER_PARAMETER and p.get("default") != SERVERLESS_TRIGGER
        ]
        for i, parameter in triggers if tasks else ():
            problem = f"is serverless, and its trigger is {parameter.get('default')}"
            fix = f"{SERVERLESS_TRIGGER} on a schedule, or a job cluster"
            yield where.finding("serverless", problem, fix, "parameters", i, "default")


class _Where:
    """A job of a target; makes findings at the keys of it."""

    def __init__(self, source: BundleSource, described: Described, name: str) -> None:
        self._source, self.described, self.name = source, described, name

    def finding(self, rule: str, says: str, fix: str, *key: str | int) -> Finding:
        place = self._source.place(("resources", "jobs", self.name, *key), self.described.target)
        return Finding.at(place, rule, f"job {self.name} ({self.described.target}) {says}", fix)


def _jobs(source: BundleSource, targets: Sequence[Described]) -> Iterator[tuple[_Where, dict[str, Any]]]:
    for described in targets:
        for name, job in (described.resources.get("jobs") or {}).items():
            yield _Where(source, described, name), job


RULES = (one_trigger, max_concurrent_runs, parameter_is_text, continuous_job, compute, serverless)
