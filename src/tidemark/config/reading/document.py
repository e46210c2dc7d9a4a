"""Reads one YAML file into plain values, with the line of each key.

It reads PyYAML's nodes, as loaded values have no lines and no repeated keys. The scalars are those of YAML 1.2:
`yes`, `on`, dates and numbers with a leading zero are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidemark.config.reading.faults import ConfigurationFaults, Fault, KeyPath, Place, fault_at, shown_key
from tidemark.config.reading.interpolation import Unset, interpolate

_UNREADABLE = object()
MOST_NODES = 100_000
"""Aliases can make a small file large in memory; a configuration is never this large."""
DOUBLED = "stands twice in its section"
_TEMPLATE = "start from conf/tidemark.yml of the project"


@dataclass
class Document:
    """The values of a file and the place of every key.

    `unreadable`: keys whose value has a fault in `faults` already, so that nothing else is reported about
    them. `from_environment`: values that are never shown, as they may be secrets in the wrong place.
    """

    file: str
    values: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    unreadable: set[KeyPath] = field(default_factory=set)
    from_environment: set[KeyPath] = field(default_factory=set)

    def fault(self, path: KeyPath, problem: str, hint: str) -> None:
        self.faults.append(fault_at(self.places, (path, problem, hint), file=self.file))


class _CoreSchema(yaml.SafeLoader):
    """Resolves the scalars of YAML 1.2 alone."""


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


def read_document(path: Path, *, environ: Mapping[str, str] | None, shown: str | None = None) -> Document:
    """The file's values; `shown` is its name in faults. Raises as `parse_document`, also for no such file."""
    shown = shown or _shown(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        near = sorted(p.name for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
        named = f"the folder has {', '.join(near[:5])}" if near else ""
        hint = named or "name one with --config or TIDEMARK_CONFIG"
        raise _broken(shown, "there is no such file", hint) from None
    except IsADirectoryError:
        raise _broken(shown, "is a folder", "name the file in it, such as tidemark.yml") from None
    except NotADirectoryError:
        raise _broken(shown, "part of the path is a file, not a folder", "correct the path") from None
    except PermissionError:
        raise _broken(shown, "this user may not read it", "change its permissions") from None
    except UnicodeDecodeError as e:
        raise _broken(shown, f"is not UTF-8 text (byte {e.start})", "save it as UTF-8") from None
    return parse_document(text, file=shown, environ=environ)


def parse_document(text: str, *, file: str, environ: Mapping[str, str] | None) -> Document:
    """The text's values; faults inside it are in `faults`. `environ` fills `${NAME}`; None leaves it as it is.

    Raises ConfigurationFaults where the text is not one YAML mapping.
    """
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
        raise _broken(file, "is empty", _TEMPLATE)
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        problem = f"holds {kind} where sections such as `kafka:` are expected"
        raise _broken(file, problem, _TEMPLATE, line=_line(root))
    document = Document(file)
    document.values = _Reader(document, environ).mapping(root, (), ())
    return document


class _Reader:
    """Turns nodes into values. A value that cannot be read is a fault and is left out."""

    def __init__(self, document: Document, environ: Mapping[str, str] | None) -> None:
        self.document = document
        self.environ = environ
        self.nodes = 0

    def mapping(self, node: yaml.MappingNode, path: KeyPath, within: tuple[int, ...]) -> dict[str, Any]:
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
                self._fault(here, key_node, f"{DOUBLED}, first in line {first}", "keep one")
                continue
            seen.add(key)
            value = self._value(value_node, here, within, key_node)
            if value is not _UNREADABLE:
                values[key] = value
        for source in merged:
            if isinstance(source, yaml.MappingNode):
                others = [(k, v) for k, v in source.value if str(k.value) not in seen]
                inherited = yaml.MappingNode(source.tag, others, source.start_mark)
                values = {**self.mapping(inherited, path, (*within, id(source))), **values}
        return values

    def _value(self, node: yaml.Node, path: KeyPath, within: tuple[int, ...], placed: yaml.Node) -> Any:
        self.document.places[path] = Place(self.document.file, _line(placed), path)
        self.nodes += 1
        if id(node) in within or self.nodes > MOST_NODES:
            problem = "an alias contains itself, or aliases multiply without end"
            raise _broken(self.document.file, problem, "write the values out", line=_line(node))
        inside = (*within, id(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path, inside)
        if isinstance(node, yaml.SequenceNode):
            items = [self._value(child, (*path, i), inside, child) for i, child in enumerate(node.value)]
            return [item for item in items if item is not _UNREADABLE]
        return self._scalar(node, path)

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        tag, raw = node.tag.removeprefix("tag:yaml.org,2002:"), str(node.value)
        if tag == "null":
            return None
        if tag == "bool":
            return raw.lower() == "true"
        if tag in ("int", "float"):
            try:
                return (int if tag == "int" else float)(raw.replace("_", ""))
            except ValueError:  # `!!int abc`, or more digits than Python converts
                return self._fault(path, node, "is not a number that can be read", "write a plain number")
        if tag != "str":
            return self._fault(path, node, f"the tag {node.tag} is not supported", "write a plain value")
        if self.environ is None:
            return raw
        try:
            text = interpolate(raw, self.environ)
        except Unset as e:
            return self._fault(path, node, e.problem, e.hint)
        if any(c < " " and c not in "\t\r\n" for c in text):
            return self._fault(path, node, "holds a control character", "remove it")
        if text != raw:
            self.document.from_environment.add(path)
        # In a Spring file `${NAME:}` means that the value is absent unless the variable is set.
        return None if text == "" and raw != "" else text

    def _fault(self, path: KeyPath, node: yaml.Node, problem: str, hint: str) -> object:
        self.document.unreadable.add(path)
        self.document.faults.append(Fault(self.document.file, shown_key(path), _line(node), problem, hint))
        return _UNREADABLE


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


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
        return "check the indentation, and quote text that contains `: `"
    return "check the indentation and the quotes around this line"
