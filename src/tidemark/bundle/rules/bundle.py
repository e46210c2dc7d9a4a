"""Rules of the bundle as a whole: keys, variables, references, targets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches

from tidemark.bundle.finding import Found
from tidemark.bundle.references import references, texts
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.config.reading.document import DOUBLED
from tidemark.config.reading.faults import Place

MODES = ("development", "production")
ENGINES = ("direct",)


def doubled_key(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A key is written once, and one name belongs to one resource or script."""
    for file in source.files:
        for fault in file.faults:
            if fault.problem.startswith(DOUBLED):
                yield Place(fault.file, fault.line), f"{fault.key} {fault.problem}", fault.hint
    owner = dict.fromkeys(source.main.values.get("scripts") or {}, "a script")
    for each in source.resources():
        if each.path[0] == "resources":
            if each.name in owner:
                problem = f"{each.name} is {owner[each.name]} already"
                yield each.place(), problem, "give one of them another name"
            owner[each.name] = f"one of {each.kind}, in {each.file.file},"


def undefined_variable(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Every `${var.…}` is declared, and every variable that a target sets."""
    declared = list(source.main.values.get("variables") or {})
    for file in source.files:
        for path, reference in references(file.values):
            kind, _, name = reference.partition(".")
            if kind == "var" and name.split(".")[0].split("[")[0] not in declared:
                fix = _near(name, declared) or "declare it under variables in databricks.yml"
                yield file.places[path], f"${{{reference}}} is not declared", fix
        for target, values in (file.values.get("targets") or {}).items():
            for name in ((values or {}).get("variables") or {}).keys() - set(declared):
                place = file.places["targets", target, "variables", name]
                fix = _near(name, declared) or "declare it under variables, or remove it"
                yield place, f"target {target} sets the undeclared variable {name}", fix


def undefined_resource(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Every `${resources.kind.key…}` names a resource of the bundle."""
    there = {f"{each.kind}.{each.name}" for each in source.resources()}
    for file in source.files:
        for path, reference in references(file.values):
            wanted = ".".join(reference.split(".")[1:3])
            if reference.startswith("resources.") and wanted not in there:
                fix = _near(wanted, there) or "correct the kind or the key"
                yield file.places[path], f"${{{reference}}} names no resource of this bundle", fix


def variable_form(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A variable has a description; its only possible type is `complex`."""
    for name, values in (source.main.values.get("variables") or {}).items():
        at = ("variables", name)
        if not (values or {}).get("description"):
            yield source.place(at), f"variable {name} has no description", "describe its purpose in a line"
        kind = (values or {}).get("type", "complex")
        if kind != "complex":
            fix = "leave type out for text; the only other one is complex"
            yield source.place((*at, "type")), f"variable {name} has type {kind}", fix


def target_form(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A target has a known mode, and a production target its own root path."""
    engine = (source.main.values.get("bundle") or {}).get("engine", "direct")
    if engine not in ENGINES:
        yield source.place(("bundle", "engine")), f"engine {engine} is deprecated", "leave engine out"
    for described in targets:
        own, name = described.values["target"], described.target
        mode, at = own.get("mode"), ("targets", name)
        if mode not in MODES:
            yield source.place((*at, "mode")), f"target {name} has mode {mode}", f"write {' or '.join(MODES)}"
        if mode == "production" and "root_path" not in (own.get("workspace") or {}):
            problem = f"production target {name} has no workspace.root_path"
            yield source.place(at), problem, "set it, or everybody who deploys gets a separate copy"


def literal_pause(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """`pause_status` comes from the target's mode or a variable; a literal one would start a developer's copy."""
    for file in source.files:
        from_variables = {at for at, reference in references(file.values) if reference.startswith("var.")}
        for path, place in file.places.items():
            if path[-1] == "pause_status" and path not in from_variables:
                fix = "remove it; use presets.trigger_pause_status in the target"
                yield place, "pause_status is a literal", fix


def secret_in_a_conf(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """The driver reads secrets by scope; in a Spark conf or an environment others can see them."""
    for file in source.files:
        for path, text in texts(file.values):
            if "{{secrets/" in text.replace(" ", ""):
                fix = "name it in conf/ as ${NAME}; the job reads it from the scope secret_scope"
                yield file.places[path], "a secret is part of a setting that others can read", fix


def run_as(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """No `run_as` together with an app: the CLI then refuses every deployer but that identity itself."""
    for described in targets:
        if described.values.get("run_as") and described.resources.get("apps"):
            problem = "has run_as and an app: only that identity itself could deploy it"
            fix = "remove run_as, and deploy as the service principal that the jobs are to run as"
            yield described.place("run_as"), f"target {described.target} {problem}", fix


def _near(name: str, there: Collection[str]) -> str:
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
