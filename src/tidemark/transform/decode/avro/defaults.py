"""Defaults of a reader's schema in Avro's own bytes, to be read as all else is."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tidemark.transform.decode.avro.schema import Type


def varint(number: int) -> bytes:
    """A number as Avro writes an int or long."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encoded(kind: Type, value: Any) -> bytes:
    """A default, which a schema gives as JSON, in Avro's own bytes."""
    match kind.kind:
        case "null":
            return b""
        case "boolean":
            return bytes([bool(value)])
        case "int" | "long":
            return varint(int(value))
        case "float" | "double":
            return struct.pack("<f" if kind.kind == "float" else "<d", float(value))
        case "string":
            return _counted(str(value).encode())
        case "bytes":
            return _counted(str(value).encode("latin-1"))
        case "fixed":
            return str(value).encode("latin-1")
        case "enum":
            return varint(kind.symbols.index(value))
        case "array" | "map":
            return _blocks(kind, value)
        case "union":
            at = next(at for at, branch in enumerate(kind.inner) if _is_of(branch, value))
            return varint(at) + encoded(kind.inner[at], value)
        case _:
            given: Mapping[str, Any] = value
            return b"".join(encoded(f.type, given.get(f.name, f.default)) for f in kind.fields)


def _counted(text: bytes) -> bytes:
    return varint(len(text)) + text


def _blocks(kind: Type, value: Any) -> bytes:
    if kind.kind == "map":
        items = [_counted(key.encode()) + encoded(kind.inner[0], each) for key, each in value.items()]
    else:
        items = [encoded(kind.inner[0], each) for each in value]
    return (varint(len(items)) + b"".join(items) if items else b"") + b"\x00"


_JSON_KINDS: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}


def _is_of(kind: Type, value: Any) -> bool:
    """Whether a default is one of this branch."""
    if isinstance(value, bool) and kind.kind != "boolean":
        return False
    return isinstance(value, _JSON_KINDS.get(kind.kind, (str,)))
