"""Rules of jobs: triggers, concurrent runs, compute, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidemark.bundle.configuration import workers_of
from tidemark.bundle.finding import Found
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described

WORKER = "report_worker"
TRIGGERS = ("continuous", "schedule", "trigger")
TRIGGER_PARAMETER = "trigger"
SERVERLESS_TRIGGER = "availableNow"
_CODE = ("notebook_task", "python_wheel_task", "spark_python_task")
_COMPUTE = ("job_cluster_key", "environment_key", "new_cluster", "existing_cluster_id")


@dataclass(frozen=True)
class _Job:
    """A job of a target."""

    described: Described
    name: str
    values: dict[str, Any]

    @property
    def tasks(self) -> list[tuple[int, dict[str, Any]]]:
        return list(enumerate(self.values.get("tasks") or []))

    @property
    def parameters(self) -> list[tuple[int, dict[str, Any]]]:
        return list(enumerate(self.values.get("parameters") or []))

    def faulty(self, problem: str, fix: str, *key: str | int) -> Found:
        """A finding at the key inside the job."""
        place = self.described.place("resources", "jobs", self.name, *key)
        return place, f"job {self.name} ({self.described.target}) {problem}", fix


def _jobs(targets: Sequence[Described]) -> Iterator[_Job]:
    for described in targets:
        for name, values in described.named("jobs").items():
            yield _Job(described, name, values)


def one_trigger(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A job has at most one of continuous, schedule and trigger."""
    for job in _jobs(targets):
        given = [key for key in TRIGGERS if key in job.values]
        if len(given) > 1:
            yield job.faulty(f"has both {' and '.join(given)}", "keep one", given[-1])


def max_concurrent_runs(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """One run at a time: two runs of a stream share a checkpoint. Unset, development mode allows four.

    Report workers share nothing but their database: as many may run as the configuration says.
    """
    for job in _jobs(targets):
        runs, most, fix = job.values.get("max_concurrent_runs"), 1, "max_concurrent_runs: 1"
        if job.name == WORKER:
            most = workers_of(source, job.described)
            fix = f"set the variable report_workers to reports.workers of conf/, which is {most}"
        if runs != most:
            problem = "does not set max_concurrent_runs" if runs is None else f"allows {runs} runs at a time"
            yield job.faulty(problem, fix, "max_concurrent_runs")


def parameter_is_text(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Job parameters are texts; a number is refused only at deployment."""
    for job in _jobs(targets):
        for i, parameter in job.parameters:
            default = parameter.get("default")
            if not isinstance(default, str):
                problem = f"parameter {parameter.get('name')} has the default {default!r}, which is not text"
                yield job.faulty(problem, f'write "{default}"', "parameters", i, "default")


def continuous_job(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A continuous job restarts by itself: its tasks have no order and no retries of their own."""
    for job in _jobs(targets):
        for i, task in job.tasks if "continuous" in job.values else ():
            for key in ("depends_on", "max_retries"):
                if key in task:
                    fix = "remove it; a continuous job restarts with a backoff of its own"
                    yield job.faulty(f"is continuous, and a task has {key}", fix, "tasks", i, key)


def compute(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Each task that runs code names compute that the job defines."""
    for job in _jobs(targets):
        clusters = {c.get("job_cluster_key") for c in job.values.get("job_clusters") or []}
        environments = {e.get("environment_key") for e in job.values.get("environments") or []}
        for i, task in job.tasks:
            key = task.get("task_key")
            if any(kind in task for kind in _CODE) and not any(kind in task for kind in _COMPUTE):
                fix = "tidemark bundle compute writes it for a target"
                yield job.faulty(f"task {key} names no compute", fix, "tasks", i)
            for kind, there in (("job_cluster_key", clusters), ("environment_key", environments)):
                if kind in task and task[kind] not in there:
                    problem = f"task {key} has {kind} {task[kind]}, which the job does not define"
                    fix = f"define it, or use {', '.join(map(str, there)) or 'tidemark bundle compute'}"
                    yield job.faulty(problem, fix, "tasks", i, kind)


def serverless(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Serverless tasks take packages from their environment, and their streams must end."""
    for job in _jobs(targets):
        tasks = [(i, task) for i, task in job.tasks if "environment_key" in task]
        for i, task in tasks:
            if "libraries" in task:
                fix = "put them into the environment's spec.dependencies"
                yield job.faulty("is serverless, and a task has libraries", fix, "tasks", i, "libraries")
        for i, parameter in job.parameters if tasks else ():
            trigger = parameter.get("default")
            if parameter.get("name") == TRIGGER_PARAMETER and trigger != SERVERLESS_TRIGGER:
                fix = f"{SERVERLESS_TRIGGER} on a schedule, or a job cluster"
                yield job.faulty(
                    f"is serverless, and its trigger is {trigger}", fix, "parameters", i, "default"
                )


RULES = (one_trigger, max_concurrent_runs, parameter_is_text, continuous_job, compute, serverless)
