"""Compares the keys of a document with the models: unknown keys are found here, with what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

from pydantic.fields import FieldInfo

from tidemark.config.base import Section
from tidemark.config.reading.faults import KeyPath, shown_key
from tidemark.config.settings import ConfigurationFile

Finding = tuple[KeyPath, str, str]
"""A key path, what is wrong there, and what to do."""


def sections_in(annotation: Any) -> list[type[Section]]:
    """The section models inside an annotation such as `dict[str, Stream]` or `Cob | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [model for inner in get_args(annotation) for model in sections_in(inner)]


def keys_of(model: type[Section]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def is_named_by_user(annotation: Any) -> bool:
    """Whether the keys below are names of the user's own, as in `dict[str, Stream]`."""
    return any(getattr(a, "__origin__", None) is dict for a in (annotation, *get_args(annotation)))


def known_only(
    values: dict[str, Any], model: type[Section] = ConfigurationFile, at: KeyPath = ()
) -> tuple[dict[str, Any], list[Finding]]:
    """The document without its unknown keys, and a finding for each of them."""
    kept: dict[str, Any] = {}
    findings: list[Finding] = []
    keys = keys_of(model)
    for key, value in values.items():
        if key not in keys:
            findings.append(((*at, key), "unknown key", _meant(key, keys, at)))
            continue
        inner = sections_in(keys[key].annotation)
        if not inner:
            kept[key] = value
        elif is_named_by_user(keys[key].annotation) and isinstance(value, dict):
            kept[key] = {}
            for name, section in value.items():
                kept[key][name] = _inside(section, inner[0], (*at, key, name), findings)
        else:
            kept[key] = _inside(value, inner[0], (*at, key), findings)
    return kept, findings


def _inside(value: Any, model: type[Section], at: KeyPath, findings: list[Finding]) -> Any:
    if isinstance(value, dict):
        kept, found = known_only(value, model, at)
        findings.extend(found)
        return kept
    if isinstance(value, list):
        return [_inside(item, model, (*at, i), findings) for i, item in enumerate(value)]
    return value


def _meant(key: str, keys: dict[str, FieldInfo], at: KeyPath) -> str:
    kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).replace("_", "-").lower()
    if kebab in keys:
        return f"write `{kebab}`"
    if near := get_close_matches(kebab, keys, n=1, cutoff=0.7):
        return f"did you mean `{near[0]}`?"
    if places := _places().get(kebab):
        return f"`{kebab}` belongs under {' or '.join(places[:3])}"
    if "." in key:
        return "write the parts of a dotted key as sections, one inside the other"
    everywhere = get_close_matches(kebab, _places(), n=1, cutoff=0.8)
    if everywhere:
        return f"did you mean `{everywhere[0]}`? It belongs under {' or '.join(_places()[everywhere[0]][:3])}"
    if not at:
        return f"the sections are {', '.join(keys)}"
    return f"remove it; {shown_key(at[-1:])} knows {', '.join(keys)}"


@cache
def _places() -> dict[str, list[str]]:
    """Every key of the models, with the sections it may stand in."""
    places: dict[str, list[str]] = {}
    for section, key in _walk(ConfigurationFile, ""):
        places.setdefault(key, []).append(section or "the top of the file")
    return places


def _walk(model: type[Section], section: str) -> Iterator[tuple[str, str]]:
    for key, field in keys_of(model).items():
        yield section, key
        for inner in sections_in(field.annotation):
            name = f"{section}.{key}" if section else key
            yield from _walk(inner, f"{name}.<name>" if is_named_by_user(field.annotation) else name)
