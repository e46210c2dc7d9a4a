"""The resources that a target deploys, with presets applied and references resolved."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tidemark.bundle.merge import merged
from tidemark.bundle.references import resolved
from tidemark.bundle.source import BundleSource
from tidemark.config.reading.faults import Place

_NAMED_BY = {"jobs": "name", "schemas": "name", "dashboards": "display_name", "alerts": "display_name"}
"""Kinds whose names get the prefix of a target, and the key of the name."""


@dataclass(frozen=True)
class Described:
    """One target as it would be deployed by `user`. `resources` is kind → name → values."""

    target: str
    resources: dict[str, dict[str, Any]]
    values: dict[str, Any] = field(repr=False)
    source: BundleSource = field(repr=False, compare=False)

    def named(self, kind: str) -> dict[str, Any]:
        """The resources of one kind, by name."""
        return self.resources.get(kind) or {}

    def place(self, *path: str | int) -> Place:
        """The line of this key, the target's own value first."""
        return self.source.place(path, self.target)

    @property
    def root_path(self) -> str:
        return str(self.values["workspace"]["root_path"])

    @property
    def permissions(self) -> list[dict[str, Any]]:
        return list(self.values.get("permissions") or [])


def described(source: BundleSource, target: str, *, user: str = "user@example.com") -> Described:
    """The resources in force for a target. Raises UsageError for an unknown target."""
    values = merged(source, target)
    _apply_presets(values, target, user)
    workspace = values.setdefault("workspace", {})
    name = values["bundle"]["name"]
    workspace.setdefault("root_path", f"/Workspace/Users/{user}/.bundle/{name}/{target}")
    facts = {
        "bundle.name": name,
        "bundle.target": target,
        "workspace.current_user.userName": user,
        "workspace.current_user.short_name": _short_name(user),
        "workspace.root_path": workspace["root_path"],
        "workspace.file_path": workspace.get("file_path", "${workspace.root_path}/files"),
        "workspace.resource_path": workspace.get("resource_path", "${workspace.root_path}/resources"),
    }

    def lookup(reference: str) -> Any:
        if reference in facts:
            return facts[reference]
        kind, _, rest = reference.partition(".")
        if kind == "var":
            return values["variables"].get(rest)
        if kind == "resources":
            return _of_resource(values.get("resources") or {}, rest)
        return None

    for _ in range(6):  # a reference may lead to a value with references, a few deep
        values = resolved(values, lookup)
    return Described(target, values.get("resources") or {}, values, source)


def _of_resource(resources: dict[str, Any], reference: str) -> Any:
    kind, name, key = (*reference.split(".", 2), "")[:3]
    resource = (resources.get(kind) or {}).get(name)
    if not isinstance(resource, dict):
        return None
    if kind == "volumes" and key == "volume_path":
        return f"/Volumes/{resource['catalog_name']}/{resource['schema_name']}/{resource['name']}"
    return resource.get(key)


def _apply_presets(values: dict[str, Any], target: str, user: str) -> None:
    presets = values.get("presets") or {}
    development = values["target"].get("mode") == "development"
    short = _short_name(user)
    prefix = str(presets.get("name_prefix") or (f"[{target} {short}] " if development else ""))
    for kind, key in _NAMED_BY.items():
        for resource in ((values.get("resources") or {}).get(kind) or {}).values():
            resource[key] = (_identifier(prefix) if kind == "schemas" else prefix) + str(resource[key])
    paused = development or presets.get("trigger_pause_status") == "PAUSED"
    for job in ((values.get("resources") or {}).get("jobs") or {}).values():
        if presets.get("tags"):
            job["tags"] = {**presets["tags"], **(job.get("tags") or {})}
        for trigger in ("continuous", "schedule", "trigger"):
            if trigger in job and "pause_status" not in job[trigger]:
                job[trigger]["pause_status"] = "PAUSED" if paused else "UNPAUSED"


def _short_name(user: str) -> str:
    return re.sub(r"\W+", "_", user.split("@")[0])


def _identifier(prefix: str) -> str:
    """`[dev jane] ` is `dev_jane_` in the name of a schema."""
    words = re.sub(r"\W+", "_", prefix).strip("_")
    return f"{words}_" if words else ""
