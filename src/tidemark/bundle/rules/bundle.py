"""Rules of the bundle as a whole: keys, variables, references, targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from tidemark.bundle.finding import Finding
from tidemark.bundle.references import references
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described

MODES = ("development", "production")
ENGINES = ("direct",)


def doubled_key(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A key is written once, and one name belongs to one resource or script."""
    owner: dict[str, str] = {name: "a script" for name in source.main.values.get("scripts") or {}}
    for file in source.files:
        for path, place in file.doubled:
            name = ".".join(map(str, path))
            yield Finding.at(place, "doubled-key", f"{name} is written twice", "keep one of the two")
    for file, path, kind, name, _ in source.resources():
        if path[0] != "resources":
            continue
        if name in owner:
            place = file.places[path]
            problem = f"{name} is {owner[name]} already"
            yield Finding.at(place, "doubled-key", problem, "give one of them another name")
        owner[name] = f"one of {kind}, in {file.name},"


def undefined_variable(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Every `${var.…}` is declared, and every variable that a target sets."""
    declared = list(source.main.values.get("variables") or {})
    for file in source.files:
        for path, reference in references(file.values):
            kind, _, name = reference.partition(".")
            if kind == "var" and name.split(".")[0].split("[")[0] not in declared:
                yield Finding.at(
                    file.places[path],
                    "undefined-variable",
                    f"${{{reference}}} is declared nowhere",
                    _near(name, declared) or "declare it under variables in databricks.yml",
                )
        for target, values in (file.values.get("targets") or {}).items():
            for name in (values or {}).get("variables") or {}:
                if name not in declared:
                    place = file.places[("targets", target, "variables", name)]
                    fix = _near(name, declared) or "declare it under variables, or take it out"
                    problem = f"target {target} sets the undeclared variable {name}"
                    yield Finding.at(place, "undefined-variable", problem, fix)


def undefined_resource(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Every `${resources.kind.key…}` is there."""
    there = {f"{kind}.{name}" for _, _, kind, name, _ in source.resources()}
    for file in source.files:
        for path, reference in references(file.values):
            if reference.startswith("resources."):
                wanted = ".".join(reference.split(".")[1:3])
                if wanted not in there:
                    yield Finding.at(
                        file.places[path],
                        "undefined-resource",
                        f"${{{reference}}} names no resource of this bundle",
                        _near(wanted, there) or "correct the kind or the key",
                    )


def variable_form(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A variable says what it is for; the only type there is is `complex`."""
    for name, values in (source.main.values.get("variables") or {}).items():
        at = ("variables", name)
        if not (values or {}).get("description"):
            problem = f"variable {name} has no description"
            yield Finding.at(source.place(at), "variable-form", problem, "say in a line what it is for")
        kind = (values or {}).get("type", "complex")
        if kind != "complex":
            yield Finding.at(
                source.place((*at, "type")),
                "variable-form",
                f"variable {name} has type {kind}",
                "leave type out for text; complex is the only one there is",
            )


def target_form(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A target has a known mode; a production one its own root path, and no literal pauses."""
    engine = (source.main.values.get("bundle") or {}).get("engine", "direct")
    if engine not in ENGINES:
        place = source.place(("bundle", "engine"))
        yield Finding.at(place, "target-form", f"engine {engine} is going away", "leave engine out")
    for described in targets:
        own = described.values["target"]
        mode = own.get("mode")
        at = ("targets", described.target)
        if mode not in MODES:
            place = source.place((*at, "mode"))
            fix = f"write {' or '.join(MODES)}"
            yield Finding.at(place, "target-form", f"target {described.target} has mode {mode}", fix)
        if mode == "production" and "root_path" not in (own.get("workspace") or {}):
            yield Finding.at(
                source.place(at),
                "target-form",
                f"production target {described.target} has no workspace.root_path",
                "set it, or everybody who deploys gets a copy of their own",
            )


def literal_pause(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """`pause_status` comes from the target's mode or a variable; written down, it would start a developer's
    copy.
    """
    for file in source.files:
        written = {at for at, reference in references(file.values) if reference.startswith("var.")}
        for path, place in file.places.items():
            if path and path[-1] == "pause_status" and path not in written:
                yield Finding.at(
                    place,
                    "literal-pause",
                    "pause_status is written down",
                    "take it out; use presets.trigger_pause_status in the target",
                )


def secret_in_a_conf(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Secrets are read in the driver by scope; in a Spark conf or an environment they can be seen."""
    for file in source.files:
        for path, text in _texts(file.values):
            if "{{secrets/" in text.replace(" ", ""):
                yield Finding.at(
                    file.places[path],
                    "secret-in-a-conf",
                    "a secret is put into a setting that others can read",
                    "name it in conf/ as ${NAME}; the job reads it from the scope secret_scope",
                )


def run_as(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """No `run_as` beside an app: the CLI refuses both together for everybody but that identity itself."""
    for described in targets:
        if described.values.get("run_as") and described.resources.get("apps"):
            yield Finding.at(
                source.place(("run_as",), described.target),
                "run-as",
                f"target {described.target} has run_as and an app: only that identity itself could deploy it",
                "take run_as out, and deploy as the service principal that the jobs are to run as",
            )


def _texts(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _texts(child, (*at, key))
    elif isinstance(value, list):
        for i, child in enumerate(value):
            yield from _texts(child, (*at, i))
    elif isinstance(value, str):
        yield at, value


def _near(name: str, there: Sequence[str] | set[str]) -> str:
    near = get_close_matches(name, sorted(there), n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else ""


RULES = (
    doubled_key,
    undefined_variable,
    undefined_resource,
    variable_form,
    target_form,
    literal_pause,
    secret_in_a_conf,
    run_as,
)
