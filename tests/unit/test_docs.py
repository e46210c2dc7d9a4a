"""The documentation names only what is there: files, links, commands, make targets and tests."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from tidemark.cli.app import COMMANDS, app, load_command

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^ {4}.+$", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:src|tests|docs|conf|fixtures|requirements)/[\w.{}*/-]*\w")
COMMAND = re.compile(r"(?<![\w./:=-])tidemark ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?(?![\w:])")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
IMPORT = re.compile(r"^ *from (tidemark[\w.]*) import ([\w, ]+)$")
MAKE = re.compile(r"(?<!\w)make ([a-z][a-z-]*)")
TEST = re.compile(r"\btest_\w+_\w+\b(?!\.py)")
TEST_NAMES = {
    name
    for path in (ROOT / "tests").rglob("*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def code_in(text: str) -> Iterator[str]:
    """Each line of the page's code: fenced, indented, or in backticks."""
    for block in FENCE.findall(text):
        yield from block.splitlines()
    rest = FENCE.sub("", text)
    yield from INDENTED.findall(rest)
    yield from SPAN.findall(rest)


def links_of(text: str) -> Iterator[str]:
    yield from (link for link in LINK.findall(FENCE.sub("", text)) if "://" not in link)


def missing_links(page: Path, text: str) -> list[str]:
    return [
        link
        for link in links_of(text)
        if not link.startswith("#") and not (page.parent / link.split("#")[0]).exists()
    ]


def missing_files(text: str) -> list[str]:
    named = {found for code in code_in(text) for found in PATH.findall(code) if code.startswith(found)}
    return sorted(name for name in named if not list(ROOT.glob(name)))


def wrong_commands(text: str) -> list[str]:
    """Commands, sub-commands and options in code that the command line does not have."""
    wrong = []
    for code in code_in(text):
        for match in COMMAND.finditer(code):
            name, second = match.groups()
            command = command_named(name)
            if command is None:
                wrong.append(f"tidemark {name}")
                continue
            rest = code[match.end() :].split("#")[0]
            inner = getattr(command, "commands", {})
            if inner and second is not None:
                if second not in inner:
                    wrong.append(f"tidemark {name} {second}")
                    continue
                command = inner[second]
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            wrong += [f"tidemark {name} {o}" for o in OPTION.findall(rest) if not inner and o not in known]
    return wrong


def missing_names(text: str) -> list[str]:
    """Names that code of the page imports from Tidemark, and that are not there."""
    found = [match.groups() for code in code_in(text) if (match := IMPORT.match(code))]
    return [
        f"{module}.{name}"
        for module, names in found
        for name in names.split(", ")
        if not hasattr(importlib.import_module(module), name)
    ]


def command_named(name: str) -> TyperCommand | TyperGroup | None:
    entry = next((e for e in COMMANDS if e.name == name), None)
    return load_command(entry) if entry else None


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_names_only_what_is_there(page: Path) -> None:
    text = page.read_text()
    assert missing_links(page, text) == []
    assert missing_files(text) == []
    assert wrong_commands(text) == []
    assert missing_names(text) == []
    assert [t for code in code_in(text) for t in MAKE.findall(code) if t not in TARGETS] == []
    tests = {t for code in code_in(text) for t in TEST.findall(code)}
    assert tests - TEST_NAMES == set()


def test_every_page_that_the_code_names_is_there_or_a_source_document() -> None:
    documents = set(
        re.findall(r"^`([\w-]+\.md)`:", (ROOT / "docs" / "requirements.md").read_text(), re.MULTILINE)
    )
    assert len(documents) == 5
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
        for name in re.findall(r"[\w/-]*[\w-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    places = (ROOT, ROOT / "docs")
    unknown = {(p, n) for p, n in named if n not in documents and not any((at / n).exists() for at in places)}
    assert unknown == set()


def test_commands_of_the_readme_are_in_the_help() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    named = {m.group(1) for c in code_in((ROOT / "README.md").read_text()) for m in COMMAND.finditer(c)}
    assert {"ingest", "status", "broker", "decode", "doctor", "check"} <= named
    assert [name for name in named if not re.search(rf"\b{name}\b", output)] == []


def test_what_is_not_there_is_noticed_when_a_page_names_it() -> None:
    text = (
        "See [it](nowhere.md), `src/tidemark/nowhere.py` and `tests/unit/test_docs.py`.\n\n"
        "    tidemark fly --far\n    tidemark ingest --sideways\n    tidemark broker dance\n"
    )
    assert missing_links(ROOT / "README.md", text) == ["nowhere.md"]
    assert missing_files(text) == ["src/tidemark/nowhere.py"]
    python = "```python\nfrom tidemark.contract.marks import Marks, Nothing\n```\n"
    assert missing_names(python) == ["tidemark.contract.marks.Nothing"]
    assert wrong_commands(text) == ["tidemark fly", "tidemark ingest --sideways", "tidemark broker dance"]


def test_every_picture_of_the_docs_can_be_drawn() -> None:
    pictures = sorted((ROOT / "docs").glob("*.svg"))
    assert pictures
    for rendering in pictures:
        root = ElementTree.parse(rendering).getroot()
        assert root.tag.endswith("svg")
        assert root.find("{http://www.w3.org/2000/svg}title") is not None
