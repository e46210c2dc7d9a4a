"""The shape of the code: imports point one way, modules stay small, JVM internals stay in one package."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tidemark"
ORDER = [
    {"contract"},
    {"config"},
    {"platform", "monitoring"},
    {"source", "transform", "sink", "resilience"},
    {"streams"},
    {"dead_letters"},
    {"ingest", "listener"},
    {"operations", "reports"},
    {"console", "bundle"},
    {"dev"},
    {"cli"},
]
LEVEL = {package: level for level, packages in enumerate(ORDER) for package in packages}
WITHOUT_SPARK = {"contract", "config"}
JVM_INTERNALS = {"_jvm", "_jsc", "_jdf", "_jsparkSession", "sparkContext", "rdd"}
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted(Path(__file__).parents[1].rglob("test_*.py"))


def package_of(module: Path) -> str | None:
    parts = module.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else None


def imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if node.module == "tidemark":
                yield from (f"tidemark.{alias.name}" for alias in node.names)


def imported_modules(text: str, known: set[str]) -> set[str]:
    """Modules of ours among what a text imports, those named in `from package import module` too."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known


def faults_of(module: Path, text: str) -> list[str]:
    """Packages that this module imports against the order."""
    package = package_of(module)
    if package is None:
        return []
    packages = {name.split(".")[1] for name in imported(text) if name.startswith("tidemark.")}
    return [other for other in packages - {package} if other in LEVEL and LEVEL[other] >= LEVEL[package]]


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 20


def test_every_package_has_its_place_in_the_order() -> None:
    packages = {package for module in MODULES if (package := package_of(module))}
    assert packages <= set(LEVEL), f"new packages: {packages - set(LEVEL)}"


def test_the_architecture_page_has_the_packages_in_their_order() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = [
        re.findall(r"`src/tidemark/(\w+)`", line.split("|")[1])
        for line in page.splitlines()
        if "| `src/" in line
    ]
    assert [set(line) for line in lines] == ORDER


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(SOURCE)))
def test_a_module_imports_only_from_packages_to_its_left(module: Path) -> None:
    assert faults_of(module, module.read_text()) == []


def test_an_import_of_a_sibling_or_of_a_package_to_the_right_is_noticed() -> None:
    text = "from tidemark.source import x\nfrom tidemark import cli\nfrom tidemark.contract import y\n"
    assert sorted(faults_of(SOURCE / "transform" / "imagined.py", text)) == ["cli", "source"]


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    held = Counter(m.parent for m in MODULES if m.name != "__init__.py")
    assert {str(folder.relative_to(SOURCE)): n for folder, n in held.items() if n > 15} == {}


def test_no_module_imports_itself_by_way_of_others() -> None:
    names = {"tidemark." + ".".join(m.relative_to(SOURCE).with_suffix("").parts): m for m in MODULES}
    graph = {name: imported_modules(m.read_text(), set(names)) - {name} for name, m in names.items()}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(SOURCE)))
def test_a_module_is_small(module: Path) -> None:
    assert len(module.read_text().splitlines()) <= 300


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(SOURCE)))
def test_a_function_is_short(module: Path) -> None:
    functions = [
        node
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    long = {f.name: f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno}
    assert {name: lines for name, lines in long.items() if lines > 70} == {}


def test_the_name_of_a_test_has_at_most_80_characters() -> None:
    names = [
        node.name
        for file in TESTS
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    assert [name for name in names if len(name) > 80] == []


@pytest.mark.parametrize(
    "module", [m for m in MODULES if package_of(m) != "platform"], ids=lambda m: str(m.relative_to(SOURCE))
)
def test_jvm_internals_are_used_in_platform_alone(module: Path) -> None:
    attributes = {n.attr for n in ast.walk(ast.parse(module.read_text())) if isinstance(n, ast.Attribute)}
    assert attributes & JVM_INTERNALS == set()


@pytest.mark.parametrize(
    "module", [m for m in MODULES if package_of(m) in WITHOUT_SPARK], ids=lambda m: str(m.relative_to(SOURCE))
)
def test_the_vocabulary_and_the_configuration_need_no_spark(module: Path) -> None:
    assert [name for name in imported(module.read_text()) if name.split(".")[0] in {"pyspark", "delta"}] == []
