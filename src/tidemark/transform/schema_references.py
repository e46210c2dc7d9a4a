"""An Avro schema that refers to other schemas, as one schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = ("record", "error", "enum", "fixed")
_KINDS = _PRIMITIVES | {*_NAMED, "array", "map"}


def with_references(schema: Any, referenced: Iterable[Any]) -> Any:
    """The schema with the definition of every referenced type in the place that names it first.

    `referenced` are the schemas that it refers to, also through others. A name that none of them defines
    stays, for who reads the schema to reject.
    """
    definitions: dict[str, Any] = {}
    for each in referenced:
        _qualified(each, "", definitions)
    return _inlined(_qualified(schema, "", {}), definitions, set())


def _qualified(schema: Any, namespace: str, definitions: dict[str, Any]) -> Any:
    """The schema with full names, which mean the same in every place; its named types go to `definitions`."""
    if isinstance(schema, str):
        complete = schema in _PRIMITIVES or "." in schema or not namespace
        return schema if complete else f"{namespace}.{schema}"
    if not isinstance(schema, dict) or schema.get("type") not in _NAMED:
        return _with_parts(schema, lambda part: _qualified(part, namespace, definitions))
    front, _, name = schema["name"].rpartition(".")
    inside = front or schema.get("namespace", namespace) or ""
    named = {**schema, "name": name, "namespace": inside}
    definitions[_full(named)] = found = _with_parts(named, lambda part: _qualified(part, inside, definitions))
    return found


def _inlined(schema: Any, definitions: Mapping[str, Any], defined: set[str]) -> Any:
    if isinstance(schema, str):
        # As Avro's parser resolves names: one that its namespace does not have may be without namespace.
        known = [n for n in (schema, schema.rpartition(".")[2]) if n in defined or n in definitions]
        if not known:
            return schema
        return known[0] if known[0] in defined else _inlined(definitions[known[0]], definitions, defined)
    if isinstance(schema, dict) and schema.get("type") in _NAMED:
        if _full(schema) in defined:
            return _full(schema)
        defined.add(_full(schema))
    return _with_parts(schema, lambda part: _inlined(part, definitions, defined))


def _full(named: Mapping[str, Any]) -> str:
    return f"{named['namespace']}.{named['name']}" if named["namespace"] else str(named["name"])


def _with_parts(schema: Any, change: Callable[[Any], Any]) -> Any:
    """The schema with `change` applied to the schemas that it consists of."""
    if isinstance(schema, list):
        return [change(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {k: change(v) if k in ("items", "values") else v for k, v in schema.items()}
    kind = schema.get("type")
    if isinstance(kind, dict | list) or (isinstance(kind, str) and kind not in _KINDS):
        changed["type"] = change(kind)
    if "fields" in schema:
        changed["fields"] = [{**field, "type": change(field["type"])} for field in schema["fields"]]
    return changed
