"""Merges the ways to write one configuration: the `spring` root, and a target's overrides."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tidemark.config.reading.document import Document
from tidemark.config.reading.faults import KeyPath, shown_key

HOISTED = ("application", "kafka")
"""Sections that may also be written under `spring`."""
TOPICS: KeyPath = ("connector", "topics")


def value_at(values: Any, path: KeyPath) -> Any:
    """The value at `path`, or None where a section on the way is missing or is not one."""
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values


def without_spring_root(document: Document) -> Document:
    """The document with `spring.kafka` and `spring.application` at the top. A key that has two different
    values, one under each root, is a fault.
    """
    if "spring" not in document.values:
        return document
    spring = document.values.pop("spring")
    if not isinstance(spring, dict):
        if spring is not None:
            document.fault(("spring",), "must be a section", "put `kafka:` under it")
        return document
    for key in spring.keys() - set(HOISTED):
        hint = f"only {' and '.join(HOISTED)} may stand under spring; write `{key}:` at the top or remove it"
        document.fault(("spring", key), "unknown key", hint)
    for paths in (document.unreadable, document.from_environment):
        paths |= {p[1:] for p in paths if len(p) > 1 and p[0] == "spring"}
    hoisted = Document(document.file, {key: spring[key] for key in HOISTED if key in spring})
    hoisted.places = {p[1:]: place for p, place in document.places.items() if p[0] == "spring" and p[1:]}
    document.places = {p: place for p, place in document.places.items() if p[0] != "spring"}
    for key in hoisted.values:
        _contradictions(document, hoisted, (key,))
    overlay(hoisted, document)
    document.values, document.places = hoisted.values, hoisted.places
    return document


def overlay(base: Document, override: Document) -> None:
    """Lay `override` over `base`, in place: sections are merged, everything else replaced."""
    _overlay(base, override, base.values, override.values, ())
    base.unreadable |= override.unreadable
    base.from_environment -= override.places.keys() - override.from_environment
    base.from_environment |= override.from_environment


def _overlay(
    base: Document, override: Document, below: dict[str, Any], above: dict[str, Any], at: KeyPath
) -> None:
    for key, value in above.items():
        path = (*at, key)
        known = below.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            _overlay(base, override, known, value, path)
            if path in override.places:
                base.places.setdefault(path, override.places[path])
            continue
        below[key] = deepcopy(value)
        base.places = {p: place for p, place in base.places.items() if p[: len(path)] != path}
        base.places.update({p: place for p, place in override.places.items() if p[: len(path)] == path})


def without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """A key without a value counts as not written; in an override it removes the base's value."""
    return {k: without_nulls(v) if isinstance(v, dict) else v for k, v in values.items() if v is not None}


def with_empty_streams(document: Document) -> Document:
    """Keeps a stream that the base file names without any key, so that its missing keys are reported."""
    topics = value_at(document.values, TOPICS)
    if isinstance(topics, dict):
        topics.update({name: {} for name, stream in topics.items() if stream is None})
    return document


def _contradictions(document: Document, hoisted: Document, path: KeyPath) -> None:
    here, there = value_at(document.values, path), value_at(hoisted.values, path)
    if isinstance(here, dict) and isinstance(there, dict):
        for key in here.keys() & there.keys():
            _contradictions(document, hoisted, (*path, key))
    elif here is not None and there is not None and here != there:
        other = hoisted.places[path]
        problem = f"contradicts {shown_key(other.written)} in line {other.line}, which has another value"
        document.fault(path, problem, "keep one of the two")
