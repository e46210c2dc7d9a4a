"""`${…}` in the bundle's values: variables, resources, and properties of bundle and workspace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tidemark.config.reading.faults import KeyPath

REFERENCE = re.compile(r"\$\{([a-zA-Z_][\w.\[\]-]*)\}")


def texts(value: Any, at: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every text below a value, with the key that it is written at."""
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(child, (*at, key))
    elif isinstance(value, str):
        yield at, value


def references(value: Any) -> Iterator[tuple[KeyPath, str]]:
    """Every reference below a value, with the key that it is written at."""
    for at, text in texts(value):
        for match in REFERENCE.finditer(text):
            yield at, match.group(1)


def resolved(value: Any, lookup: Callable[[str], Any]) -> Any:
    """The value with its references filled in. A text that is one reference becomes the value that it refers
    to, of whatever type. A reference for which `lookup` returns None stays.
    """
    if isinstance(value, dict):
        return {key: resolved(child, lookup) for key, child in value.items()}
    if isinstance(value, list):
        return [resolved(child, lookup) for child in value]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> Any:
        answer = lookup(match.group(1))
        return match.group(0) if answer is None else answer

    whole = REFERENCE.fullmatch(value)
    return found(whole) if whole else REFERENCE.sub(lambda match: str(found(match)), value)
