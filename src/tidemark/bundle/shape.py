"""The shape of `databricks.yml` itself: which sections there are and what their keys are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemark.bundle.finding import Finding
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Bundle(_Section):
    name: str
    cluster_id: str | None = None
    compute_id: str | None = None
    databricks_cli_version: str | None = None
    deployment: dict[str, Any] | None = None
    engine: str | None = None
    git: dict[str, Any] | None = None
    uuid: str | None = None


class _Artifact(_Section):
    type: str | None = None
    path: str | None = None
    build: str | None = None
    dynamic_version: bool | None = None
    executable: str | None = None
    files: list[dict[str, Any]] | None = None


class _Sync(_Section):
    include: list[str] | None = None
    exclude: list[str] | None = None
    paths: list[str] | None = None


class _Variable(_Section):
    default: Any = None
    description: str | None = None
    lookup: dict[str, str] | None = None
    type: str | None = None


class _Presets(_Section):
    artifacts_dynamic_version: bool | None = None
    jobs_max_concurrent_runs: int | None = None
    name_prefix: str | None = None
    pipelines_development: bool | None = None
    source_linked_deployment: bool | None = None
    tags: dict[str, str] | None = None
    trigger_pause_status: str | None = None


class _Workspace(_Section):
    artifact_path: str | None = None
    auth_type: str | None = None
    azure_client_id: str | None = None
    azure_environment: str | None = None
    azure_login_app_id: str | None = None
    azure_tenant_id: str | None = None
    azure_workspace_resource_id: str | None = None
    client_id: str | None = None
    file_path: str | None = None
    google_service_account: str | None = None
    host: str | None = None
    profile: str | None = None
    resource_path: str | None = None
    root_path: str | None = None
    state_path: str | None = None


class _RunAs(_Section):
    service_principal_name: str | None = None
    user_name: str | None = None


class _Permission(_Section):
    level: str
    group_name: str | None = None
    service_principal_name: str | None = None
    user_name: str | None = None


class _Common(_Section):
    artifacts: dict[str, _Artifact] | None = None
    permissions: list[_Permission] | None = None
    presets: _Presets | None = None
    resources: dict[str, dict[str, dict[str, Any]]] | None = None
    run_as: _RunAs | None = None
    sync: _Sync | None = None
    workspace: _Workspace | None = None


class _Target(_Common):
    bundle: dict[str, Any] | None = None
    cluster_id: str | None = None
    compute_id: str | None = None
    default: bool | None = None
    git: dict[str, Any] | None = None
    mode: str | None = None
    variables: dict[str, Any] | None = None


class _File(_Common):
    bundle: _Bundle | None = None
    experimental: dict[str, Any] | None = None
    include: list[str] | None = None
    python: dict[str, Any] | None = None
    scripts: dict[str, dict[str, Any]] | None = None
    targets: dict[str, _Target] | None = None
    variables: dict[str, _Variable] | None = None


def bundle_shape(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """No key that bundles do not have, in any file; `databricks.yml` has a name and targets."""
    for file in source.files:
        try:
            _File.model_validate(file.values)
        except ValidationError as error:
            for each in error.errors():
                path = tuple(p for p in each["loc"])
                place = next(
                    (file.places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in file.places),
                    file.places[()],
                )
                unknown = each["type"] == "extra_forbidden"
                says = "is no key of a bundle" if unknown else each["msg"]
                yield Finding.at(
                    place, "bundle-shape", f"{'.'.join(map(str, path))}: {says}", "correct it, or take it out"
                )
    for key in ("bundle", "targets"):
        if not source.main.values.get(key):
            problem = f"databricks.yml has no {key}"
            yield Finding(source.main.name, 1, "bundle-shape", problem, f"add {key}:")
