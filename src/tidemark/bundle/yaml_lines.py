"""YAML with the line of every key, so that a finding can say where it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidemark.contract.errors import UsageError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """A line of a file; `file` is relative to the bundle's folder."""

    file: str
    line: int


@dataclass
class YamlFile:
    """A file's values, the place of each key, and keys that are written twice."""

    path: Path
    name: str
    values: dict[str, Any]
    places: dict[KeyPath, Place] = field(default_factory=dict)
    doubled: list[tuple[KeyPath, Place]] = field(default_factory=list)


def read_yaml(path: Path, *, root: Path) -> YamlFile:
    """Raises UsageError, with the line, for a file that is absent or no YAML mapping."""
    name = path.relative_to(root).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", "run it in the bundle's folder") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{name} holds no mapping", "see docs/deploy.md for what belongs there")
    found = YamlFile(path, name, {})
    found.values = _value(node, (), found)
    return found


def _value(node: yaml.Node, at: KeyPath, into: YamlFile) -> Any:
    into.places.setdefault(at, Place(into.name, node.start_mark.line + 1))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, at, into)
    if isinstance(node, yaml.SequenceNode):
        return [_value(child, (*at, i), into) for i, child in enumerate(node.value)]
    return yaml.SafeLoader("").construct_object(node, deep=True)


def _mapping(node: yaml.MappingNode, at: KeyPath, into: YamlFile) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key_node, child in node.value:
        key = str(key_node.value)
        place = Place(into.name, key_node.start_mark.line + 1)
        if key in values:
            into.doubled.append(((*at, key), place))
        into.places[(*at, key)] = place
        values[key] = _value(child, (*at, key), into)
    return values
