"""One target's bundle: the included files, and the target's overrides on top of them."""

from __future__ import annotations

import copy
from typing import Any

from tidemark.bundle.source import BundleSource
from tidemark.contract.errors import UsageError

KEYED_LISTS = {
    "tasks": "task_key",
    "job_clusters": "job_cluster_key",
    "parameters": "name",
    "environments": "environment_key",
}
"""Lists whose entries a target overrides by their key; any other list is appended to."""

_OF_THE_TARGET = ("artifacts", "bundle", "permissions", "presets", "resources", "run_as", "sync", "workspace")


def merged(source: BundleSource, target: str) -> dict[str, Any]:
    """The values in force for the target, references unresolved; `target` holds the target's own keys.

    Raises UsageError for an unknown target.
    """
    if target not in source.targets:
        raise UsageError(f"the bundle has no target {target}", f"it has {', '.join(source.targets)}")
    values: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for file in source.files:
        values = laid_over(values, {k: v for k, v in file.values.items() if k not in ("targets", "include")})
        own = laid_over(own, (file.values.get("targets") or {}).get(target) or {})
    for key in _OF_THE_TARGET:
        if key in own:
            values[key] = laid_over(values.get(key), own[key])
    declared, assigned = values.get("variables") or {}, own.get("variables") or {}
    values["variables"] = {
        name: assigned.get(name, (variable or {}).get("default")) for name, variable in declared.items()
    }
    values["target"] = {"name": target, **own}
    return values


def laid_over(under: Any, over: Any, key: str = "") -> Any:
    """`over` on `under`: mappings key by key, `KEYED_LISTS` entry by entry, other lists appended."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{name: laid_over(under.get(name), value, name) for name, value in over.items()}}
    if isinstance(under, list) and isinstance(over, list):
        by = KEYED_LISTS.get(key)
        return _by_key(under, over, by) if by else [*under, *copy.deepcopy(over)]
    return copy.deepcopy(over)


def _by_key(under: list[Any], over: list[Any], by: str) -> list[Any]:
    result = list(under)
    for entry in over:
        name = entry.get(by) if isinstance(entry, dict) else None
        at = next((i for i, e in enumerate(result) if isinstance(e, dict) and e.get(by) == name), None)
        if at is None:
            result.append(copy.deepcopy(entry))
        else:
            result[at] = laid_over(result[at], entry)
    return result
