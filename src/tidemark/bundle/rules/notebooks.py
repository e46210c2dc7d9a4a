"""Rules of notebooks: they are there, in source format, thin, and take what their job gives."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidemark.bundle.finding import Finding
from tidemark.bundle.notebook_source import HEADER, definitions_in, widgets_of
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.bundle.yaml_lines import KeyPath, Place, YamlFile

FOLDER = "notebooks"
LONGEST = 60
JVM_INTERNALS = frozenset({"_jvm", "_jsc", "sparkContext", "rdd"})
_MAY_USE_THE_JVM = "platform"


def missing_notebook(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A notebook's path leads, from the YAML file that names it, to a file with its ending."""
    for file, at, written in _notebook_paths(source):
        if not (file.path.parent / written).is_file():
            here = file.path.parent.relative_to(source.root).as_posix()
            problem = f"there is no notebook {written}, seen from {here}/"
            fix = "write the path relative to this file, with .py"
            yield Finding.at(file.places[at], "missing-notebook", problem, fix)


def notebook_form(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Source format by its first line; at most 60 lines; no functions, classes or loops."""
    for path in sorted((source.root / FOLDER).rglob("*.py")):
        name = path.relative_to(source.root).as_posix()
        lines = path.read_text(encoding="utf-8").splitlines()
        if lines[:1] != [HEADER]:
            fix = f"make it: {HEADER}"
            yield Finding(name, 1, "notebook-form", "the first line is no notebook header", fix)
        if len(lines) > LONGEST:
            problem = f"{len(lines)} lines; a notebook has {LONGEST} at most"
            yield Finding(name, LONGEST + 1, "notebook-form", problem, "move the work into the package")
        for line in definitions_in(path):
            fix = "move it into the package, where it is tested"
            yield Finding(name, line, "notebook-form", "a notebook with logic of its own", fix)


def parameter_drift(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A job's parameters and the widgets of its notebooks are the same, by name."""
    seen: set[Finding] = set()
    for described in targets:
        for name, job in (described.resources.get("jobs") or {}).items():
            notebooks = [path for path in _notebooks_of(source, name) if path.is_file()]
            if not notebooks:
                continue
            widgets = {w.name: (path, w) for path in notebooks for w in widgets_of(path)}
            given = [str(p.get("name")) for p in job.get("parameters") or []]
            for i, parameter in enumerate(given):
                if parameter not in widgets:
                    at = ("resources", "jobs", name, "parameters", i, "name")
                    place = source.place(at, described.target)
                    named = ", ".join(path.relative_to(source.root).as_posix() for path in notebooks)
                    problem = f"{named} has no widget {parameter}, which job {name} sets"
                    fix = f'dbutils.widgets.text("{parameter}", ""), or take the parameter out'
                    seen.add(Finding.at(place, "parameter-drift", problem, fix))
            for path, widget in widgets.values():
                if widget.name not in given:
                    notebook = path.relative_to(source.root).as_posix()
                    problem = f"job {name} ({described.target}) has no parameter {widget.name}"
                    fix = "add it to the job's parameters, or take the widget out"
                    seen.add(Finding.at(Place(notebook, widget.line), "parameter-drift", problem, fix))
    yield from sorted(seen)


def jvm_internals(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Nothing that Spark Connect and serverless compute do not have, outside of `platform/`."""
    for path in sorted((source.root / "src").rglob("*.py")):
        if _MAY_USE_THE_JVM in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in JVM_INTERNALS:
                name = path.relative_to(source.root).as_posix()
                problem = f"{ast.unparse(node)} does not work over Spark Connect"
                fix = "use DataFrames, or move it to platform/"
                yield Finding(name, node.lineno, "jvm-internals", problem, fix)


def _notebook_paths(source: BundleSource) -> Iterator[tuple[YamlFile, KeyPath, str]]:
    for file, path, kind, _, values in source.resources():
        for i, task in enumerate(values.get("tasks") or []) if kind == "jobs" else ():
            written = (task.get("notebook_task") or {}).get("notebook_path")
            if isinstance(written, str):
                yield file, (*path, "tasks", i, "notebook_task", "notebook_path"), written


def _notebooks_of(source: BundleSource, job: str) -> list[Path]:
    return [
        (file.path.parent / written).resolve() for file, at, written in _notebook_paths(source) if job in at
    ]


RULES = (missing_notebook, notebook_form, parameter_drift, jvm_internals)
