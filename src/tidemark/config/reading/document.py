"""Reads one YAML file into plain values and remembers the line of each, so that faults can name it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidemark.config.reading.faults import ConfigurationFaults, Fault, KeyPath, Place, shown_key
from tidemark.config.reading.interpolation import Unset, interpolate

_UNREADABLE = object()
MOST_NODES = 100_000
"""Aliases can blow a small file up; a configuration is never that large."""


@dataclass
class Document:
    """`values` is what the file says; `places` the line of every key in it."""

    file: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    unreadable: set[KeyPath] = field(default_factory=set)
    """Keys whose value could not be read: their fault is noted, and nothing else is to be said of them."""
    from_environment: set[KeyPath] = field(default_factory=set)
    """Values that the environment gave, which are not shown: they may be secrets in the wrong place."""


class _CoreSchema(yaml.SafeLoader):
    """Scalars as in YAML 1.2: `yes`, `on` and dates are text, and so is a number with a leading zero."""


_CoreSchema.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^[-+]?(?:0|[1-9][0-9_]*)$", list("-+0123456789")),
    ("float", r"^[-+]?(?:[0-9][0-9_]*\.[0-9]*|\.[0-9]+|[1-9][0-9]*(?=[eE]))(?:[eE][-+]?[0-9]+)?$",
     list("-+.0123456789")),
    ("merge", r"^<<$", ["<"]),
):  # fmt: skip
    _CoreSchema.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def read_document(path: Path, *, environ: Mapping[str, str]) -> Document:
    """Raises ConfigurationFaults where the file cannot be read as one YAML mapping at all; what is
    wrong inside it stands in `faults`.
    """
    shown = _shown(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = sorted(p.name for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
        hint = (
            f"the folder has {', '.join(near[:5])}" if near else "name one with --config or TIDEMARK_CONFIG"
        )
        raise _broken(shown, "there is no such file", hint) from None
    except IsADirectoryError:
        raise _broken(shown, "is a folder", "name the file in it, such as tidemark.yml") from None
    except NotADirectoryError:
        raise _broken(shown, "part of the path is a file, not a folder", "correct the path") from None
    except PermissionError:
        raise _broken(shown, "may not be read by this user", "change its permissions") from None
    except UnicodeDecodeError as e:
        raise _broken(shown, f"is not UTF-8 text (byte {e.start})", "save it as UTF-8") from None
    return parse_document(text, file=shown, environ=environ)


def parse_document(text: str, *, file: str, environ: Mapping[str, str]) -> Document:
    try:
        root = yaml.compose(text, Loader=_CoreSchema)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        several = "but found another document" in str(e.problem)
        problem = "holds several documents (`---`)" if several else f"is not YAML: {e.problem or e.context}"
        hint = "write one file per target, such as tidemark.prod.yml" if several else _yaml_hint(str(e))
        raise _broken(file, problem, hint, line=mark.line + 1 if mark else 0) from None
    except yaml.YAMLError as e:
        raise _broken(file, f"is not YAML: {str(e).splitlines()[0]}", "remove the character") from None
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value.strip() in ("", "null", "~")):
        raise _broken(file, "is empty", "start from conf/tidemark.yml of the project")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        problem = f"holds {kind} where sections such as `kafka:` are expected"
        hint = "start from conf/tidemark.yml of the project"
        raise _broken(file, problem, hint, line=root.start_mark.line + 1)
    document = Document(file=file)
    _Reader(document, environ).read(root)
    return document


class _Reader:
    """Turns nodes into values. A value that cannot be read is a fault and left out."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self.document = document
        self.environ = environ
        self.nodes = 0

    def read(self, root: yaml.MappingNode) -> None:
        self.document.values = self._mapping(root, (), ())

    def _value(self, node: yaml.Node, path: KeyPath, within: tuple[int, ...]) -> Any:
        self.nodes += 1
        if id(node) in within or self.nodes > MOST_NODES:
            raise _broken(self.document.file, "an alias contains itself, or aliases multiply without end",
                          "write the values out", line=node.start_mark.line + 1)  # fmt: skip
        inside = (*within, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, inside)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for i, child in enumerate(node.value):
                self._place((*path, i), child)
                item = self._value(child, (*path, i), inside)
                if item is not _UNREADABLE:
                    items.append(item)
            return items
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath, within: tuple[int, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        seen: set[str] = set()
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.value == "":
                self._fault(path, key_node, "a key must be a plain word", "write `key: value`")
                continue
            key = key_node.value
            here = (*path, key)
            if key in seen:
                first = self.document.places[here].line
                self._fault(here, key_node, f"stands twice in its section, first in line {first}", "keep one")
                continue
            seen.add(key)
            self._place(here, key_node)
            value = self._value(value_node, here, within)
            if value is not _UNREADABLE:
                values[key] = value
        for source in merged:
            if isinstance(source, yaml.MappingNode):
                inherited = self._mapping(yaml.MappingNode(source.tag, [
                    (k, v) for k, v in source.value if k.value not in seen
                ], source.start_mark), path, (*within, id(source)))  # fmt: skip
                values = {**inherited, **values}
        return values

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        tag = node.tag.rpartition(":")[2] if node.tag.startswith("tag:yaml.org,2002:") else node.tag
        raw = str(node.value)
        if tag == "null":
            return None
        if tag == "bool":
            return raw.lower() == "true"
        if tag in ("int", "float"):
            number = raw.replace("_", "")
            return int(number) if tag == "int" else float(number)
        if tag != "str":
            self._fault(path, node, f"the tag {node.tag} is not supported", "write a plain value")
            return _UNREADABLE
        try:
            text = interpolate(raw, self.environ)
        except Unset as e:
            self._fault(path, node, e.problem, e.hint)
            return _UNREADABLE
        if any(c < " " and c not in "\t\r\n" for c in text):
            self._fault(path, node, "holds a control character", "remove it")
            return _UNREADABLE
        if text != raw:
            self.document.from_environment.add(path)
        # `${NAME:}` is how a Spring file says "nothing unless set"
        return None if text == "" and raw != "" else text

    def _place(self, path: KeyPath, node: yaml.Node) -> None:
        self.document.places[path] = Place(self.document.file, node.start_mark.line + 1, path)

    def _fault(self, path: KeyPath, node: yaml.Node, problem: str, hint: str) -> None:
        self.document.unreadable.add(path)
        line = node.start_mark.line + 1
        self.document.faults.append(Fault(self.document.file, shown_key(path), line, problem, hint))


def _shown(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _broken(file: str, problem: str, hint: str, *, line: int = 0) -> ConfigurationFaults:
    return ConfigurationFaults([Fault(file, "", line, problem, hint)])


def _yaml_hint(message: str) -> str:
    if "\\t" in message:
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in message:
        return "check the indentation, and put text that has `: ` in it in quotes"
    return "check the indentation and the quotes around this line"
