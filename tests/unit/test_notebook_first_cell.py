"""The first cell of a notebook that a person opens brings the package; `make notebooks` runs it for real."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidemark.bundle.notebook_source import cells_of

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").rglob("*.py"))


def first_cell(notebook: Path) -> str:
    cells = cells_of(notebook.read_text(encoding="utf-8"))
    return next(cell.text for cell in cells if cell.kind == "code")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, which the notebook lies in."""
    root = tmp_path / "a folder"
    (root / "conf").mkdir(parents=True)
    (root / "conf/tidemark.yml").touch()
    (root / "notebooks/explore").mkdir(parents=True)
    monkeypatch.chdir(root / "notebooks/explore")
    return root


@pytest.fixture
def done(root: Path) -> Callable[[], list[str]]:
    """Runs the cell; what it asked of the workspace."""
    asked: list[str] = []
    path = SimpleNamespace(get=lambda: "/Users/ann/notebooks/explore/records")
    context = SimpleNamespace(notebookPath=lambda: path)
    utils = SimpleNamespace(notebook=lambda: SimpleNamespace(getContext=lambda: context))
    dbutils = SimpleNamespace(
        notebook=SimpleNamespace(entry_point=SimpleNamespace(getDbutils=lambda: utils)),
        library=SimpleNamespace(restartPython=lambda: asked.append("restart")),
    )
    shell = SimpleNamespace(run_line_magic=lambda name, line: asked.append(f"%{name} {line}"))

    def run() -> list[str]:
        exec(first_cell(NOTEBOOKS[0]), {"dbutils": dbutils, "get_ipython": lambda: shell})
        return asked

    return run


def test_every_notebook_has_the_same_first_cell() -> None:
    assert len(NOTEBOOKS) == 8
    assert len({first_cell(notebook) for notebook in NOTEBOOKS}) == 1


def test_the_wheel_is_installed_when_the_notebook_lies_in_a_deployment(
    root: Path, monkeypatch: pytest.MonkeyPatch, done: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    wheel = root / "app/tidemark-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    assert done() == [f"%pip install --quiet '{wheel}'", "restart"]


def test_the_checkout_is_installed_when_there_is_no_wheel(
    root: Path, monkeypatch: pytest.MonkeyPatch, done: Callable[[], list[str]]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert done() == [f"%pip install --quiet '{root}'", "restart"]


def test_nothing_is_installed_when_the_package_is_there(done: Callable[[], list[str]]) -> None:
    assert done() == []
