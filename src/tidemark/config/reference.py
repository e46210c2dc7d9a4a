"""Writes docs/configuration.md from the models: `python -m tidemark.config.reference [FILE]`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from tidemark.config.base import Section
from tidemark.config.reading.shape import is_named_by_user, keys_of, sections_in
from tidemark.config.settings import ConfigurationFile

DEFAULT_FILE = Path("docs/configuration.md")

INTRODUCTION = """\
# Configuration

<!-- Written by `python -m tidemark.config.reference` from the models in src/tidemark/config. Do not edit. -->

One YAML file, `conf/tidemark.yml` unless `--config` or `TIDEMARK_CONFIG` names another. `tidemark check`
reports every fault at once, each with its file, line and key, and what to do; its exit code is then 2.
An unknown key is a fault, never ignored. Two keys that contradict each other are a fault too.

**The `spring` root.** `spring.kafka` and `spring.application` mean the same as `kafka` and `application`
at the top. A key that stands in both places with two values is a fault.

**Environment variables.** `${NAME}` is filled in from the environment, `${NAME:default}` has a default, which
may contain another `${…}`; `$${` stands for `${` itself. A variable that is not set and has no default is
a fault. A value that is empty after that counts as not written.

**Targets.** `--target prod` lays `tidemark.prod.yml` (or `tidemark-prod.yml`; for `application.yml`,
`application-prod.yml`) over the file: sections are merged, values and lists replaced, and a key without
a value (`bucket:`) removes the base file's. A target without a file is a fault.

**Paths.** Schema and certificate files are relative to the folder of the configuration file. Destinations,
`checkpoint-root` and `state-dir` are relative to the project: the folder of the configuration file, or its
parent where that folder is called `conf` or `config`. A `bucket` that starts with `/`, `.` or `~`, or names
a scheme, is a folder; any other is an S3 bucket.

**Schemas by name.** A stream without `schema` has `schemas/<stream>.ddl`, `.avsc` or `.json`, the first
that exists.

**Secrets** are never printed: not by `check`, not in logs, not in errors. Values that the environment gave
are not shown in errors either.

**Scalars** are read as YAML 1.2 does: only `true` and `false` are truth values; dates and numbers with
leading zeros are text.

Column *used by*: the reader of the key. Spark has no group membership, so keys about one are for the
listener alone; the admin client reads topics and writes group offsets.
"""


def reference() -> str:
    """The whole document, ending in one line break."""
    parts = [INTRODUCTION]
    for key, model in sections(ConfigurationFile):
        rows = [row for row in _rows(model) if row]
        if not rows:
            continue
        title = f"## `{key}`" if key else "## Top of the file"
        parts.append("\n".join([title, "", *_described(model), *HEAD, *rows, ""]))
    return "\n".join(parts)


HEAD = ("| key | type | default | used by | meaning |", "| --- | --- | --- | --- | --- |")


def sections(model: type[Section], at: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Every section of the file by its key path, parents first; `<name>` stands for a user's own name."""
    yield at, model
    for key, field in keys_of(model).items():
        for inner in sections_in(field.annotation):
            below = f"{at}.{key}" if at else key
            if is_named_by_user(field.annotation):
                below += ".<name>"
            elif get_origin(field.annotation) is tuple:
                below += "[]"
            yield from sections(inner, below)


def _rows(model: type[Section]) -> Iterator[str]:
    for key, field in keys_of(model).items():
        if sections_in(field.annotation):
            continue  # has a heading of its own
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        used_by = extra.get("used_by", model.used_by)
        cells = (f"`{key}`", _type(field), _default(field), used_by, field.description or "")
        yield "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _described(model: type[Section]) -> list[str]:
    own = model.__doc__ if "__doc__" in model.__dict__ else None
    return [inspect.cleandoc(own), ""] if own and model is not ConfigurationFile else []


def _type(field: FieldInfo) -> str:
    return _named(field.annotation) + _limits(field)


def _named(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " \\| ".join(f"`{choice}`" for choice in arguments).replace("\\|", "or")
    if origin in (UnionType, Union):
        return " or ".join(dict.fromkeys(_named(a) for a in arguments if a is not NoneType))
    if origin is tuple:
        return f"list of {_named(arguments[0])}"
    if origin is dict:
        return f"{_named(arguments[0])} → {_named(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    return NAMES.get(annotation, str(annotation))


NAMES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "`true` or `false`",
    SecretStr: "secret",
}


def _limits(field: FieldInfo) -> str:
    signs = {annotated_types.Ge: ("≥", "ge"), annotated_types.Gt: (">", "gt"),
             annotated_types.Le: ("≤", "le"), annotated_types.Lt: ("<", "lt")}  # fmt: skip
    found = []
    for limit in field.metadata:
        if type(limit) in signs:
            sign, attribute = signs[type(limit)]
            found.append(f"{sign} {getattr(limit, attribute)}")
    return f", {', '.join(found)}" if found else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}):
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(v.value if isinstance(v, Enum) else str(v) for v in value)}]`"
    if isinstance(value, float) and value.is_integer():
        return f"`{int(value)}`"
    return f"`{value.value if isinstance(value, Enum) else value}`" if value != "" else "empty"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_FILE).write_text(reference(), encoding="utf-8")
