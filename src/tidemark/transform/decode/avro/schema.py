"""How bytes of one Avro schema are read as values of another: the rules of resolution, settled once a schema.

As Java's Avro has them: fields by name or alias, numbers widened, text and bytes either way, an enum's
symbols by name or its default, the first branch of a union that fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_NAMED = ("record", "error", "enum", "fixed")
_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


@dataclass
class Type:
    """A type of a schema. Those that are named may contain themselves."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    inner: list[Type] = field(default_factory=list)
    """The branches of a union, the one element of an array or of a map's values."""
    fields: list[Member] = field(default_factory=list)


@dataclass
class Member:
    """A field of a record."""

    name: str
    aliases: tuple[str, ...]
    type: Type
    default: Any
    has_default: bool


@dataclass
class Node:
    """One step of reading: `kind` says what is in the bytes, `target` what it becomes.

    `fields` are a record's in the writer's order; what is read under the name None is left out. `missing`
    are those that the reader alone has, each with its type and its default, as JSON. `member` is the name
    of the union's member that the value is.
    """

    kind: str
    path: str
    target: Type
    size: int = 0
    symbols: tuple[tuple[str, str | None], ...] = ()
    inner: list[Node] = field(default_factory=list)
    fields: list[tuple[str | None, Node]] = field(default_factory=list)
    missing: list[tuple[str, Node, Any]] = field(default_factory=list)
    member: str | None = None
    why: str = ""


def parse(schema: Any, known: dict[str, Type] | None = None, space: str = "") -> Type:
    """The schema's type. Names are full names."""
    known = {} if known is None else known
    if isinstance(schema, list):
        return Type("union", inner=[parse(each, known, space) for each in schema])
    if isinstance(schema, str):
        full = f"{space}.{schema}" if space and "." not in schema else schema
        return known.get(full) or known.get(schema) or Type(schema)
    kind = schema["type"]
    if not isinstance(kind, str):
        return parse(kind, known, space)
    if kind not in _NAMED and kind not in ("array", "map"):
        plain = parse(kind, known, space)
        logical = schema.get("logicalType", "")
        if plain.name or not logical:
            return plain
        return Type(
            plain.kind, logical=logical, precision=schema.get("precision", 0), scale=schema.get("scale", 0)
        )
    made = Type(
        "record" if kind == "error" else kind,
        logical=schema.get("logicalType", ""),
        precision=schema.get("precision", 0),
        scale=schema.get("scale", 0),
        size=schema.get("size", 0),
        symbols=tuple(schema.get("symbols", ())),
        default=schema.get("default") if kind == "enum" else None,
    )
    if kind in ("array", "map"):
        made.inner = [parse(schema["items" if kind == "array" else "values"], known, space)]
        return made
    space = schema["name"].rpartition(".")[0] or schema.get("namespace", space)
    made.name = _full(schema["name"].rpartition(".")[2], space)
    made.aliases = tuple(_full(alias, space) for alias in schema.get("aliases", ()))
    known[made.name] = made
    made.fields = [
        Member(
            f["name"],
            tuple(f.get("aliases", ())),
            parse(f["type"], known, space),
            f.get("default"),
            "default" in f,
        )
        for f in schema.get("fields", ())
    ]
    return made


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def resolve(writer: Type, reader: Type, path: str = "") -> Node:
    """How what `writer` wrote is read as `reader`. What does not fit fails where a record has it."""
    if writer.kind == "union":
        return Node("union", path, reader, inner=[resolve(branch, reader, path) for branch in writer.inner])
    if reader.kind == "union":
        return _into_union(writer, reader, path)
    if writer.kind != reader.kind:
        if reader.kind in _WIDER.get(writer.kind, ()):
            return Node(writer.kind, path, reader)
        return _error(path, f"{_shown(writer)} is no {_shown(reader)} of the reader's schema")
    if writer.kind in ("enum", "fixed") and not _same_name(writer, reader):
        return _error(path, f"{_shown(writer)} is not the reader's {_shown(reader)}")
    if writer.kind == "fixed" and writer.size != reader.size:
        return _error(path, f"{writer.size} bytes are not the reader's {reader.size}")
    node = Node(writer.kind, path, reader, size=writer.size)
    if writer.kind == "enum":
        node.symbols = tuple((s, s if s in reader.symbols else reader.default) for s in writer.symbols)
    elif writer.kind in ("array", "map"):
        node.inner = [resolve(writer.inner[0], reader.inner[0], path + "[]")]
    elif writer.kind == "record":
        return _record(node, writer, reader)
    return node


def _record(node: Node, writer: Type, reader: Type) -> Node:
    left = {f.name: f for f in reader.fields}
    for written in writer.fields:
        path = f"{node.path}.{written.name}" if node.path else written.name
        name = written.name
        if name not in left and _same_name(writer, reader):
            name = next((f.name for f in left.values() if name in f.aliases), name)
        read = left.pop(name, None)
        if read is None:
            node.fields.append((None, skipped(written.type, path, {})))
        else:
            node.fields.append((read.name, resolve(written.type, read.type, path)))
    for absent in left.values():
        if not absent.has_default:
            return _error(node.path, f"the writer has no field {absent.name}, and it has no default")
        path = f"{node.path}.{absent.name}" if node.path else absent.name
        node.missing.append((absent.name, resolve(absent.type, absent.type, path), absent.default))
    return node


def skipped(writer: Type, path: str, seen: dict[int, Node]) -> Node:
    """How what no reader asks for is read over; it may contain itself."""
    if id(writer) in seen:
        return seen[id(writer)]
    node = seen[id(writer)] = Node(writer.kind, path, Type(writer.kind), size=writer.size)
    node.symbols = tuple((s, s) for s in writer.symbols)
    node.inner = [skipped(each, path, seen) for each in writer.inner]
    node.fields = [(None, skipped(f.type, f"{path}.{f.name}", seen)) for f in writer.fields]
    return node


def _into_union(writer: Type, reader: Type, path: str) -> Node:
    at = _branch(writer, reader.inner, path)
    if at is None:
        return _error(path, f"{_shown(writer)} is in no branch of the reader's union")
    node = resolve(writer, reader.inner[at], path)
    present = [b for b in reader.inner if b.kind != "null"]
    if writer.kind != "null" and len(present) > 1 and not _numbers(present):
        node.member = f"member{sum(b.kind != 'null' for b in reader.inner[:at])}"
    return node


def _numbers(present: list[Type]) -> bool:
    """Whether the branches are two widths of one kind, which are read as the wider one."""
    return not any(b.logical for b in present) and {b.kind for b in present} in (
        {"int", "long"},
        {"float", "double"},
    )


def _branch(writer: Type, branches: list[Type], path: str) -> int | None:
    alike: int | None = None
    for at, branch in enumerate(branches):
        if branch.kind != writer.kind:
            continue
        if not writer.name or _same_name(writer, branch):
            return at
        if writer.kind == "record" and not _fails(resolve(writer, branch, path)):
            same = writer.name.rpartition(".")[2] == branch.name.rpartition(".")[2]
            alike = at if alike is None or same else alike
    if alike is not None:
        return alike
    wider = _WIDER.get(writer.kind, ())
    return next((at for at, branch in enumerate(branches) if branch.kind in wider), None)


def _fails(node: Node) -> bool:
    return (
        node.kind == "error" or any(_fails(n) for n in node.inner) or any(_fails(n) for _, n in node.fields)
    )


def _same_name(writer: Type, reader: Type) -> bool:
    return writer.name == reader.name or writer.name in reader.aliases


def _error(path: str, why: str) -> Node:
    return Node("error", path, Type("null"), why=why)


def _shown(kind: Type) -> str:
    return f"{kind.kind} {kind.name}" if kind.name else kind.kind
