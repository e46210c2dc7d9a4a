"""Rules of notebooks: they exist, are in source format and short, and take what their job gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidemark.bundle.finding import Found
from tidemark.bundle.notebook_source import HEADER, definitions_in, widgets_of
from tidemark.bundle.source import BundleSource, Resource
from tidemark.bundle.target import Described
from tidemark.config.reading.faults import KeyPath, Place

FOLDER = "notebooks"
LONGEST = 60
JVM_INTERNALS = frozenset({"_jvm", "_jsc", "sparkContext", "rdd"})
_MAY_USE_THE_JVM = "platform"


def missing_notebook(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A notebook's path leads, from the YAML file that names it, to a file with its ending."""
    for job, key, written in _notebook_paths(source):
        if not source.relative_to(job.file, written).is_file():
            problem = f"there is no notebook {written}, seen from {Path(job.file.file).parent.as_posix()}/"
            yield job.place(*key), problem, "write the path relative to this file, with .py"


def notebook_form(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Source format by its first line; at most 60 lines; no functions, classes or loops."""
    for path in sorted((source.root / FOLDER).rglob("*.py")):
        name = path.relative_to(source.root).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        if lines[:1] != [HEADER]:
            yield Place(name, 1), "the first line is not a notebook header", f"make it: {HEADER}"
        if len(lines) > LONGEST:
            problem = f"{len(lines)} lines; a notebook has {LONGEST} at most"
            yield Place(name, LONGEST + 1), problem, "move the work into the package"
        for line in definitions_in(path):
            fix = "move it into the package, where it is tested"
            yield Place(name, line), "a notebook with logic of its own", fix


def parameter_drift(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A job's parameters and the widgets of its notebooks are the same, by name."""
    for described in targets:
        for name, job in described.named("jobs").items():
            named = [
                source.relative_to(r.file, path) for r, _, path in _notebook_paths(source) if r.name == name
            ]
            notebooks = {
                path.resolve().relative_to(source.root).as_posix(): path for path in named if path.is_file()
            }
            if not notebooks:
                continue
            widgets = {w.name: Place(n, w.line) for n, path in notebooks.items() for w in widgets_of(path)}
            given = [str(p.get("name")) for p in job.get("parameters") or []]
            for i, parameter in enumerate(given):
                if parameter not in widgets:
                    place = described.place("resources", "jobs", name, "parameters", i, "name")
                    problem = f"{', '.join(notebooks)} has no widget {parameter}, which job {name} sets"
                    yield place, problem, f'dbutils.widgets.text("{parameter}", ""), or remove the parameter'
            for widget in widgets.keys() - set(given):
                problem = f"job {name} ({described.target}) has no parameter {widget}"
                yield widgets[widget], problem, "add it to the job's parameters, or remove the widget"


def jvm_internals(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Nothing outside `platform/` needs what Spark Connect and serverless compute do not have."""
    for path in sorted((source.root / "src").rglob("*.py")):
        if _MAY_USE_THE_JVM in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in JVM_INTERNALS:
                place = Place(path.relative_to(source.root).as_posix(), node.lineno)
                problem = f"{ast.unparse(node)} does not work over Spark Connect"
                yield place, problem, "use DataFrames, or move it to platform/"


def _notebook_paths(source: BundleSource) -> Iterator[tuple[Resource, KeyPath, str]]:
    """The job, the key inside it, and the path of each notebook task."""
    for job in source.resources():
        for i, task in enumerate(job.values.get("tasks") or []) if job.kind == "jobs" else ():
            written = (task.get("notebook_task") or {}).get("notebook_path")
            if isinstance(written, str):
                yield job, ("tasks", i, "notebook_task", "notebook_path"), written


RULES = (missing_notebook, notebook_form, parameter_drift, jvm_internals)
