"""Faults of a configuration: each with its file, line and key, what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidemark.config.redaction import masked_text
from tidemark.contract.errors import ConfigError

KeyPath: TypeAlias = tuple[str | int, ...]
"""A place inside the document: keys of mappings and positions in lists."""

Finding: TypeAlias = tuple[KeyPath, str, str]
"""A key path, what is wrong there, and what to do."""


@dataclass(frozen=True)
class Place:
    """Where a key is written. `written` is its path in the file, the `spring` root included."""

    file: str
    line: int
    written: KeyPath = ()


@dataclass(frozen=True)
class Fault:
    """`line` counts from 1; 0 where the fault has no line (a file that does not exist)."""

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
        super().__init__("\n  ".join([self.title, *(str(f) for f in ordered)]))

    @property
    def title(self) -> str:
        count = len(self.faults)
        return f"{count} fault{'' if count == 1 else 's'} in the configuration"

    def __reduce__(self) -> tuple[type[ConfigurationFaults], tuple[tuple[Fault, ...]]]:
        return (type(self), (self.faults,))


def shown_key(path: Sequence[str | int]) -> str:
    """`connector.topics.orders.rules[0].expr`; a key that contains a dot is quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = f'"{part}"' if "." in part else part
            text += f".{name}" if text else name
    return text


def related(path: KeyPath, other: KeyPath) -> bool:
    """Whether one of the two paths lies at or below the other."""
    length = min(len(path), len(other))
    return path[:length] == other[:length]


def fault_at(places: Mapping[KeyPath, Place], finding: Finding, *, file: str) -> Fault:
    """The fault with the file and line of the nearest key that is written, going outwards; `file` if none is."""
    path, problem, hint = finding
    for length in range(len(path), 0, -1):
        if (place := places.get(path[:length])) is not None:
            key = shown_key((*place.written, *path[length:]))
            return Fault(place.file, key, place.line, problem, hint)
    return Fault(file, shown_key(path), 0, problem, hint)
