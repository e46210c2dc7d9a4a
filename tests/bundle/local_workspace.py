"""A workspace API on loopback, and a bundle's description brought into it through databricks-sdk."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import NotFound

from tidemark.bundle.target import Described

State = dict[tuple[str, str], dict[str, Any]]
"""What is deployed: (kind, full name) → its values, in the same form as described and as read back."""

LACKING = {
    "alerts": "/api/2.0/alerts",
    "apps": "/api/2.0/apps",
    "dashboards": "/api/2.0/lakeview/dashboards",
}
"""Kinds that the local API does not have, and where a workspace has them."""
LEFT_TO_THE_CLI = ("permissions", "lifecycle")
"""What the CLI takes out of a resource and sends elsewhere, or keeps for itself."""
KINDS = ("schemas", "volumes", "secret_scopes", "secrets", "files", "jobs")
"""In the order in which they need each other."""


@contextmanager
def local_workspace(folder: Path) -> Iterator[WorkspaceClient]:
    """An empty workspace API; `folder` holds its files."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "minilake.cli", "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, "MINILAKE_DATA_DIR": str(folder)},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield WorkspaceClient(host=f"http://127.0.0.1:{port}", token="local")
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the local workspace API ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("the local workspace API does not answer")


def wanted_state(root: Path, target: Described) -> State:
    """What a deploy of the target leaves in a workspace, but for the kinds that are `LACKING`."""
    state: State = {}
    files = f"{target.root_path}/files"
    for schema in target.resources["schemas"].values():
        name = f"{schema['catalog_name']}.{schema['name']}"
        state["schemas", name] = {"comment": schema["comment"], "grants": _grants(schema)}
    for volume in target.resources["volumes"].values():
        name = f"{volume['catalog_name']}.{volume['schema_name']}.{volume['name']}"
        values = {key: volume[key] for key in ("comment", "volume_type")}
        state["volumes", name] = {**values, "grants": _grants(volume)}
    for scope in target.resources["secret_scopes"].values():
        acls = {_principal(each): each["level"] for each in scope.get("permissions", [])}
        state["secret_scopes", scope["name"]] = {"acls": acls}
    for app in target.resources.get("apps", {}).values():
        for secret in (each["secret"] for each in app["resources"] if "secret" in each):
            state["secrets", f"{secret['scope']}/{secret['key']}"] = {}
    for job in target.resources["jobs"].values():
        settings = {key: value for key, value in job.items() if key not in LEFT_TO_THE_CLI}
        tasks = []
        for task in settings["tasks"]:
            local = (root / "resources" / task["notebook_task"]["notebook_path"]).resolve()
            path = f"{files}/{local.relative_to(root).with_suffix('').as_posix()}"
            state["files", path] = {"source": local.read_text(encoding="utf-8")}
            tasks.append({**task, "notebook_task": {**task["notebook_task"], "notebook_path": path}})
        permissions = {_principal(each): each["level"] for each in job.get("permissions", [])}
        state["jobs", job["name"]] = {"settings": {**settings, "tasks": tasks}, "permissions": permissions}
    return state


def read_state(workspace: WorkspaceClient, catalog: str, root_path: str) -> State:
    """What there is: jobs, scopes, the catalog's schemas but for `default`, files below the folder."""
    state: State = {}
    for schema in (each for each in workspace.schemas.list(catalog) if each.name != "default"):
        name = str(schema.full_name)
        state["schemas", name] = {"comment": schema.comment, "grants": _grants_in(workspace, "SCHEMA", name)}
        for volume in workspace.volumes.list(catalog, str(schema.name)):
            full = str(volume.full_name)
            kind = str(getattr(volume.volume_type, "value", volume.volume_type))
            grants = _grants_in(workspace, "VOLUME", full)
            state["volumes", full] = {"comment": volume.comment, "volume_type": kind, "grants": grants}
    for scope in workspace.secrets.list_scopes():
        acls: Any = workspace.api_client.do("GET", "/api/2.0/secrets/acls/list", query={"scope": scope.name})
        given = {each["principal"]: each["permission"] for each in acls["items"]}
        given.pop("users", None)  # the emulator's word for whoever made the scope
        state["secret_scopes", str(scope.name)] = {"acls": given}
        for secret in workspace.secrets.list_secrets(str(scope.name)):
            state["secrets", f"{scope.name}/{secret.key}"] = {}
    for path in _files_below(workspace, root_path):
        exported = workspace.workspace.export(path)
        state["files", path] = {"source": base64.b64decode(exported.content or "").decode()}
    for job in jobs_of(workspace):
        permissions: Any = workspace.api_client.do("GET", f"/api/2.0/permissions/jobs/{job['job_id']}")
        state["jobs", job["settings"]["name"]] = {
            "settings": job["settings"],
            "permissions": {
                _principal(each): each["all_permissions"][0]["permission_level"]
                for each in permissions["access_control_list"]
                if each.get("user_name") != "minilake-user"  # whoever made the job
            },
        }
    return state


def deploy(workspace: WorkspaceClient, wanted: State, there: State) -> list[tuple[str, str]]:
    """Bring the workspace from what is there to what is wanted; what had to be changed."""
    changed = [key for kind in KINDS for key in wanted if key[0] == kind and there.get(key) != wanted[key]]
    for kind, name in changed:
        _BRING[kind](workspace, name, wanted[kind, name], (kind, name) in there)
    return changed


def destroy(workspace: WorkspaceClient, there: State, root_path: str) -> None:
    """Take out all that is there."""
    for job in jobs_of(workspace):
        workspace.jobs.delete(job["job_id"])
    workspace.workspace.delete(root_path, recursive=True)
    for kind, name in there:
        if kind == "secret_scopes":
            workspace.secrets.delete_scope(name)
        elif kind == "volumes":
            workspace.volumes.delete(name)
    for kind, name in there:
        if kind == "schemas":
            workspace.schemas.delete(name)


def jobs_of(workspace: WorkspaceClient) -> list[dict[str, Any]]:
    listed: Any = workspace.api_client.do("GET", "/api/2.2/jobs/list")
    return [_without_nones(job) for job in listed["jobs"]]


def _bring_schema(workspace: WorkspaceClient, name: str, values: dict[str, Any], there: bool) -> None:
    catalog, schema = name.split(".")
    if there:
        workspace.schemas.update(name, comment=values["comment"])
    else:
        workspace.schemas.create(name=schema, catalog_name=catalog, comment=values["comment"])
    _grant(workspace, "SCHEMA", name, values["grants"])


def _bring_volume(workspace: WorkspaceClient, name: str, values: dict[str, Any], there: bool) -> None:
    catalog, schema, volume = name.split(".")
    made = {"catalog_name": catalog, "schema_name": schema, "name": volume}
    made |= {key: values[key] for key in ("comment", "volume_type")}
    if there:
        workspace.volumes.update(name, comment=values["comment"])
    else:
        workspace.api_client.do("POST", "/api/2.1/unity-catalog/volumes", body=made)
    _grant(workspace, "VOLUME", name, values["grants"])


def _bring_scope(workspace: WorkspaceClient, name: str, values: dict[str, Any], there: bool) -> None:
    if not there:
        workspace.secrets.create_scope(name)
    for principal, permission in values["acls"].items():
        body = {"scope": name, "principal": principal, "permission": permission}
        workspace.api_client.do("POST", "/api/2.0/secrets/acls/put", body=body)


def _bring_secret(workspace: WorkspaceClient, name: str, values: dict[str, Any], there: bool) -> None:
    scope, key = name.split("/")
    workspace.secrets.put_secret(scope, key, string_value="for this test")


def _bring_file(workspace: WorkspaceClient, name: str, values: dict[str, Any], there: bool) -> None:
    workspace.workspace.mkdirs(name.rsplit("/", 1)[0])
    body = {"path": name, "format": "SOURCE", "language": "PYTHON", "overwrite": True}
    body["content"] = base64.b64encode(values["source"].encode()).decode()
    workspace.api_client.do("POST", "/api/2.0/workspace/import", body=body)


def _bring_job(workspace: WorkspaceClient, name: str, values: dict[str, Any], there: bool) -> None:
    settings = values["settings"]
    if there:
        (found,) = [job["job_id"] for job in jobs_of(workspace) if job["settings"]["name"] == name]
        body = {"job_id": found, "new_settings": settings}
        workspace.api_client.do("POST", "/api/2.2/jobs/reset", body=body)
    else:
        made: Any = workspace.api_client.do("POST", "/api/2.2/jobs/create", body=settings)
        found = made["job_id"]
    given = [{**_named(who), "permission_level": level} for who, level in values["permissions"].items()]
    path = f"/api/2.0/permissions/jobs/{found}"
    workspace.api_client.do("PUT", path, body={"access_control_list": given})


_BRING = {
    "schemas": _bring_schema,
    "volumes": _bring_volume,
    "secret_scopes": _bring_scope,
    "secrets": _bring_secret,
    "files": _bring_file,
    "jobs": _bring_job,
}


def _grants(resource: dict[str, Any]) -> dict[str, list[str]]:
    return {each["principal"]: sorted(each["privileges"]) for each in resource.get("grants", [])}


def _grants_in(workspace: WorkspaceClient, kind: str, name: str) -> dict[str, list[str]]:
    listed: Any = workspace.api_client.do("GET", f"/api/2.1/unity-catalog/permissions/{kind}/{name}")
    return {each["principal"]: sorted(each["privileges"]) for each in listed["privilege_assignments"]}


def _grant(workspace: WorkspaceClient, kind: str, name: str, grants: dict[str, list[str]]) -> None:
    changes = [{"principal": who, "add": what} for who, what in grants.items()]
    path = f"/api/2.1/unity-catalog/permissions/{kind}/{name}"
    workspace.api_client.do("PATCH", path, body={"changes": changes})


def _principal(entry: dict[str, Any]) -> str:
    keys = ("group_name", "service_principal_name", "user_name")
    return next(f"{key}={entry[key]}" for key in keys if entry.get(key))


def _named(principal: str) -> dict[str, str]:
    key, _, name = principal.partition("=")
    return {key: name}


def _files_below(workspace: WorkspaceClient, folder: str) -> Iterator[str]:
    try:
        listed = list(workspace.workspace.list(folder, recursive=True))
    except NotFound:
        return
    yield from (str(e.path) for e in listed if getattr(e.object_type, "value", "") != "DIRECTORY")


def _without_nones(value: Any) -> Any:
    """The emulator answers with every key it knows, and with the API's defaults."""
    if isinstance(value, dict):
        return {k: _without_nones(v) for k, v in value.items() if v is not None and v != "ALL_SUCCESS"}
    return [_without_nones(v) for v in value] if isinstance(value, list) else value
