"""The keys of the models, and what was probably meant by an unknown one."""

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


def sections_in(annotation: Any) -> list[type[Section]]:
    """The section models inside an annotation such as `dict[str, Stream]` or `Cob | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [model for inner in get_args(annotation) for model in sections_in(inner)]


def keys_of(model: type[Section]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def is_named_by_user(annotation: Any) -> bool:
    """Whether the keys below are the user's own names, as in `dict[str, Stream]`."""
    return any(getattr(a, "__origin__", None) is dict for a in (annotation, *get_args(annotation)))


def meant_by(key: str, keys: dict[str, FieldInfo], at: KeyPath) -> str:
    """What to write instead of the unknown key `key` in the section at `at`."""
    kebab = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", key).replace("_", "-").lower()
    places = _places()
    if kebab in keys:
        return f"write `{kebab}`"
    if near := get_close_matches(kebab, keys, n=1, cutoff=0.7):
        return f"did you mean `{near[0]}`?"
    if kebab in places:
        return f"`{kebab}` belongs under {' or '.join(places[kebab][:3])}"
    if "." in key:
        return "write the parts of a dotted key as sections, one inside the other"
    if near := get_close_matches(kebab, places, n=1, cutoff=0.8):
        return f"did you mean `{near[0]}`? It belongs under {' or '.join(places[near[0]][:3])}"
    if not at:
        return f"the sections are {', '.join(keys)}"
    return f"remove it; the keys of {shown_key(at[-1:])} are {', '.join(keys)}"


@cache
def _places() -> dict[str, list[str]]:
    """Every key of the models, with the sections that it may stand in."""
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
