"""`${…}` in the bundle's values: variables, other resources, and facts of bundle and workspace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tidemark.bundle.yaml_lines import KeyPath

REFERENCE = re.compile(r"\$\{([a-zA-Z_][\w.\[\]-]*)\}")


def references(value: Any, at: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every reference below a value, with the key it is written at."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from references(child, (*at, key))
    elif isinstance(value, list):
        for i, child in enumerate(value):
            yield from references(child, (*at, i))
    elif isinstance(value, str):
        for match in REFERENCE.finditer(value):
            yield at, match.group(1)


def resolved(value: Any, lookup: Callable[[str], Any]) -> Any:
    """The value with its references filled in. A text that is one reference becomes what it refers to,
    whatever its type; one that `lookup` answers with None stays.
    """
    if isinstance(value, dict):
        return {key: resolved(child, lookup) for key, child in value.items()}
    if isinstance(value, list):
        return [resolved(child, lookup) for child in value]
    if not isinstance(value, str):
        return value
    whole = REFERENCE.fullmatch(value)
    if whole:
        found = lookup(whole.group(1))
        return value if found is None else found
    return REFERENCE.sub(lambda m: str(_kept(lookup(m.group(1)), m.group(0))), value)


def _kept(found: Any, written: str) -> Any:
    return written if found is None else found
