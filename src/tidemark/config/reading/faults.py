"""What is wrong with a configuration: every fault with its place, what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidemark.config.redaction import masked_text
from tidemark.contract.errors import ConfigError

KeyPath: TypeAlias = tuple[str | int, ...]
"""A place inside the document: keys of mappings and positions in lists."""


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    written: KeyPath
    """The key path as it stands in the file, `spring` root included."""


@dataclass(frozen=True)
class Fault:
    """`line` counts from 1; 0 where the fault has no line (a file that is not there)."""

    file: str
    key: str
    line: int
    problem: str
    hint: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem", masked_text(self.problem))
        object.__setattr__(self, "hint", masked_text(self.hint))

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        named = f"{place}  {self.key}: " if self.key else f"{place}: "
        return f"{named}{self.problem}" + (f" → {self.hint}" if self.hint else "")


class ConfigurationFaults(ConfigError):
    """All faults of one configuration, in the order of the file. Exit code 2."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        ordered = sorted(set(faults), key=lambda f: (f.file, f.line, f.key, f.problem))
        self.faults: tuple[Fault, ...] = tuple(ordered)
        count = len(ordered)
        title = f"{count} fault{'' if count == 1 else 's'} in the configuration"
        super().__init__("\n  ".join([title, *(str(f) for f in ordered)]))

    def __reduce__(self) -> tuple[type[ConfigurationFaults], tuple[tuple[Fault, ...]]]:
        return (type(self), (self.faults,))


def shown_key(path: Sequence[str | int]) -> str:
    """`connector.topics.orders.rules[0].expr`; a key with a dot in it is put in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = f'"{part}"' if "." in part else part
            text += f".{name}" if text else name
    return text


def place_of(places: Mapping[KeyPath, Place], path: KeyPath) -> tuple[Place, int] | None:
    """The nearest key that stands in a file, going outwards from `path`, and how long its path is."""
    for length in range(len(path), 0, -1):
        if (found := places.get(path[:length])) is not None:
            return found, length
    return None


def fault_at(
    places: Mapping[KeyPath, Place], path: KeyPath, problem: str, hint: str = "", *, file: str
) -> Fault:
    """The fault with the file and line of the nearest key that is written; `file` where none is."""
    found = place_of(places, path)
    if found is None:
        return Fault(file, shown_key(path), 0, problem, hint)
    place, length = found
    return Fault(place.file, shown_key((*place.written, *path[length:])), place.line, problem, hint)
