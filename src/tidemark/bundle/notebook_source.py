"""Notebooks in Databricks' source format: their cells, the widgets they declare, and their definitions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

HEADER = "# Databricks notebook source"
_SEPARATOR = re.compile(r"^# COMMAND -{10}\s*$", re.MULTILINE)
_TITLE = re.compile(r"^# DBTITLE \d+,(.*)$")
_WIDGETS = {"text", "dropdown", "combobox", "multiselect"}


@dataclass(frozen=True)
class Cell:
    """`kind` is `code`, or the magic of a `# MAGIC` cell such as `md` and `sql`; `line` is its first one."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class Widget:
    name: str
    default: str | None
    line: int


def cells_of(text: str) -> list[Cell]:
    """The cells in order, without empty ones and without the header."""
    body = text.removeprefix(HEADER)
    line = 1
    cells = []
    for part in _SEPARATOR.split(body):
        lines = part.split("\n")
        leading = next((i for i, each in enumerate(lines) if each.strip()), len(lines))
        content = [each for each in lines if not _TITLE.match(each)]
        if any(each.strip() for each in content):
            cells.append(_cell(content, line + leading))
        line += len(lines) - 1
    return cells


def widgets_of(path: Path) -> list[Widget]:
    """The widgets that a notebook declares, in order; none if it is not Python."""
    found = []
    for call in (node for node in _nodes_of(path) if isinstance(node, ast.Call)):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in _WIDGETS:
            texts = [a.value if isinstance(a, ast.Constant) else None for a in call.args[:2]]
            if ast.unparse(function.value) == "dbutils.widgets" and texts and isinstance(texts[0], str):
                default = texts[1] if len(texts) > 1 and isinstance(texts[1], str) else None
                found.append(Widget(texts[0], default, call.lineno))
    return sorted(found, key=lambda w: w.line)


def definitions_in(path: Path) -> list[int]:
    """Lines that define functions or classes, or loop: logic that belongs into the package."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.Lambda)
    return [node.lineno for node in _nodes_of(path) if isinstance(node, kinds)]


def _nodes_of(path: Path) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    except (OSError, SyntaxError):
        return []


def _cell(lines: list[str], line: int) -> Cell:
    filled = [each for each in lines if each.strip()]
    if all(each.startswith("# MAGIC") for each in filled):
        magic = [each.removeprefix("# MAGIC").removeprefix(" ") for each in filled]
        first = magic[0].strip()
        if first.startswith("%"):
            kind, _, rest = first[1:].partition(" ")
            return Cell(kind, "\n".join([rest, *magic[1:]]).strip("\n"), line)
        return Cell("md", "\n".join(magic), line)
    return Cell("code", "\n".join(lines).strip("\n"), line)
