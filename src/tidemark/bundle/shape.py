"""The shape of the bundle's files: which sections there are, and the names of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from tidemark.bundle.finding import Found
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.config.reading.document import DOUBLED
from tidemark.config.reading.faults import Place


def _section(keys: str = "", **inner: Any) -> Any:
    """A section with these keys, of any value; `inner` are the keys whose values have a shape too."""
    fields: dict[str, Any] = {key: (Any, None) for key in keys.split()}
    fields |= {key: (shape | None, None) for key, shape in inner.items()}
    return create_model("Section", __config__=ConfigDict(extra="forbid"), **fields)


def _named(shape: Any) -> Any:
    by_name: Any = dict
    return by_name[str, shape]


_COMMON = {
    "artifacts": _named(_section("type path build dynamic_version executable files")),
    "permissions": list[_section("level group_name service_principal_name user_name")],  # type: ignore[misc]
    "presets": _section(
        "artifacts_dynamic_version jobs_max_concurrent_runs name_prefix pipelines_development"
        " source_linked_deployment tags trigger_pause_status"
    ),
    "resources": _named(_named(dict[str, Any])),
    "run_as": _section("service_principal_name user_name"),
    "sync": _section("include exclude paths"),
    "workspace": _section(
        "artifact_path auth_type azure_client_id azure_environment azure_login_app_id azure_tenant_id"
        " azure_workspace_resource_id client_id file_path google_service_account host profile resource_path"
        " root_path state_path"
    ),
}
_TARGET = _section(
    "cluster_id compute_id default git mode", bundle=dict[str, Any], variables=dict[str, Any], **_COMMON
)
_FILE: type[BaseModel] = _section(
    "experimental include python",
    bundle=_section("name cluster_id compute_id databricks_cli_version deployment engine git uuid"),
    scripts=_named(dict[str, Any]),
    targets=_named(_TARGET),
    variables=_named(_section("default description lookup type")),
    **_COMMON,
)


def bundle_shape(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """No key that bundles do not have, in any file; `databricks.yml` has a name and targets."""
    for file in source.files:
        for fault in file.faults:
            if not fault.problem.startswith(DOUBLED):
                yield Place(fault.file, fault.line), f"{fault.key}: {fault.problem}", fault.hint
        try:
            _FILE.model_validate(file.values)
        except ValidationError as error:
            for each in error.errors():
                path = each["loc"]
                written = (path[:length] for length in range(len(path), 0, -1))
                place = next((file.places[p] for p in written if p in file.places), Place(file.file, 1))
                unknown = each["type"] == "extra_forbidden"
                problem = "is not a key of a bundle" if unknown else each["msg"]
                yield place, f"{'.'.join(map(str, path))}: {problem}", "correct it, or remove it"
    for key in ("bundle", "targets"):
        if not source.main.values.get(key):
            yield Place(source.main.file, 1), f"databricks.yml has no {key}", f"add {key}:"
