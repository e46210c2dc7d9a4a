"""Brings the ways to write one configuration together: the `spring` root, and a target's overrides."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from tidemark.config.reading.document import Document
from tidemark.config.reading.faults import Fault, KeyPath, fault_at, shown_key

HOISTED = ("application", "kafka")
"""What may stand under `spring` and means the same without it."""


def without_spring_root(document: Document) -> Document:
    """The document with `spring.kafka` and `spring.application` at the top. A key that stands in both
    places with two values is a fault.
    """
    if "spring" not in document.values:
        return document
    spring = document.values.pop("spring")
    if not isinstance(spring, dict):
        if spring is not None:
            document.faults.append(_at(document, ("spring",), "must be a section", "put `kafka:` under it"))
        return document
    moved = Document(file=document.file)
    for key, value in spring.items():
        if key not in HOISTED:
            hint = (
                f"only {' and '.join(HOISTED)} may stand under spring; write `{key}:` at the top or remove it"
            )
            document.faults.append(_at(document, ("spring", key), "unknown key", hint))
            continue
        moved.values[key] = value
    for paths in (document.unreadable, document.from_environment):
        paths |= {p[1:] for p in paths if len(p) > 1 and p[0] == "spring"}
    moved.places = {p[1:]: place for p, place in document.places.items() if len(p) > 1 and p[0] == "spring"}
    document.places = {p: place for p, place in document.places.items() if p[0] != "spring"}
    for key in moved.values:
        _contradictions(document, moved, (key,))
    overlay(moved, document)
    document.values, document.places = moved.values, moved.places
    return document


def overlay(base: Document, override: Document) -> None:
    """Lay `override` over `base`, in place: sections are merged, everything else replaced."""
    _overlay(base, override, base.values, override.values, ())
    base.unreadable |= override.unreadable
    base.from_environment -= {p for p in override.places if p not in override.from_environment}
    base.from_environment |= override.from_environment


def _overlay(
    base: Document, override: Document, below: dict[str, Any], above: dict[str, Any], at: KeyPath
) -> None:
    for key, value in above.items():
        path = (*at, key)
        known = below.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            _overlay(base, override, known, value, path)
            if path not in base.places and path in override.places:
                base.places[path] = override.places[path]
            continue
        below[key] = deepcopy(value)
        base.places = {p: place for p, place in base.places.items() if p[: len(path)] != path}
        base.places.update({p: place for p, place in override.places.items() if p[: len(path)] == path})


def without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """A key without a value is as if it were not written; in an override it takes the base's away."""
    return {k: without_nulls(v) if isinstance(v, dict) else v for k, v in values.items() if v is not None}


def with_empty_streams(values: dict[str, Any]) -> dict[str, Any]:
    """A stream that the base file names without any key is kept, so that what it lacks is said."""
    topics = (
        (values.get("connector") or {}).get("topics") if isinstance(values.get("connector"), dict) else None
    )
    if isinstance(topics, dict):
        topics.update({name: {} for name, stream in topics.items() if stream is None})
    return values


def _contradictions(document: Document, moved: Document, path: KeyPath) -> None:
    here, there = _value(document.values, path), _value(moved.values, path)
    if isinstance(here, dict) and isinstance(there, dict):
        for key in here.keys() & there.keys():
            _contradictions(document, moved, (*path, key))
    elif here is not None and there is not None and here != there:
        other = moved.places[path]
        problem = f"contradicts {shown_key(other.written)} in line {other.line}, which has another value"
        document.faults.append(_at(document, path, problem, "keep one of the two"))


def _value(values: Any, path: KeyPath) -> Any:
    for part in path:
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _at(document: Document, path: KeyPath, problem: str, hint: str) -> Fault:
    return fault_at(document.places, path, problem, hint, file=document.file)
