"""Rules of what Unity Catalog and SQL warehouses hold: grants, volumes, alerts, dashboards, table names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tidemark.bundle.configuration import CONFIGURATION, settings_of
from tidemark.bundle.finding import Finding
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.contract.errors import ConfigError

_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(?:IDENTIFIER\('?)?([`\w.${}\[\]-]+)", re.IGNORECASE)


def empty_grant(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A grant has somebody and something."""
    for file, path, kind, name, values in source.resources():
        for i, grant in enumerate(values.get("grants") or []):
            if not grant.get("principal") or not grant.get("privileges"):
                place = file.places[(*path, "grants", i)]
                problem = f"a grant of {kind} {name} lacks its principal or its privileges"
                yield Finding.at(place, "empty-grant", problem, "name both, or take the grant out")


def readable_secrets(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """No bundle-wide CAN_VIEW beside a secret scope: the CLI makes READ of the scope of it."""
    for described in targets:
        if not described.resources.get("secret_scopes"):
            continue
        for entry in described.permissions:
            if entry.get("level") == "CAN_VIEW":
                who = next((str(v) for k, v in entry.items() if k != "level"), "somebody")
                yield Finding.at(
                    source.place(("permissions",), described.target),
                    "readable-secrets",
                    f"CAN_VIEW on all of {described.target} lets {who} read the secrets",
                    "give permissions to single resources instead, such as ${var.job_permissions}",
                )


def literal_schema(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A volume's schema is the bundle's own, by reference: development mode gives it another name."""
    for file, path, kind, name, values in source.resources():
        schema = str(values.get("schema_name", ""))
        if kind == "volumes" and schema and not schema.startswith("${resources.schemas."):
            yield Finding.at(
                file.places[(*path, "schema_name")],
                "literal-schema",
                f"volume {name} names the schema {schema}",
                "refer to it: ${resources.schemas.<key>.name}",
            )


def warehouse(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Alerts and dashboards run on a warehouse."""
    for described in targets:
        for kind in ("alerts", "dashboards"):
            for name, values in (described.resources.get(kind) or {}).items():
                if "warehouse_id" not in values:
                    place = source.place(("resources", kind, name), described.target)
                    problem = f"{kind} {name} ({described.target}) has no warehouse_id"
                    yield Finding.at(place, "warehouse", problem, "warehouse_id: ${var.warehouse_id}")


def dashboard_file(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """A dashboard's file is there and is JSON without references: those are not filled in."""
    for file, path, kind, name, values in source.resources():
        if kind != "dashboards" or "file_path" not in values:
            continue
        place = file.places[(*path, "file_path")]
        try:
            text = (file.path.parent / values["file_path"]).read_text(encoding="utf-8")
            json.loads(text)
        except (OSError, ValueError) as error:
            problem = f"the file of dashboard {name} cannot be read: {error}"
            yield Finding.at(place, "dashboard-file", problem, "correct file_path, relative to this file")
            continue
        if "${" in text:
            fix = "use bare table names with dataset_catalog and dataset_schema"
            problem = f"the file of dashboard {name} holds a reference"
            yield Finding.at(place, "dashboard-file", problem, fix)


def unknown_table(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Alerts and dashboards read tables that the configuration of their target makes."""
    for described in targets:
        queries = list(_queries(source, described))
        if not queries:
            continue
        try:
            known = tables_of(source, described)
        except ConfigError as error:
            place = source.place(("targets", described.target))
            fix = f"tidemark check --config {CONFIGURATION} --target {described.target}"
            yield Finding.at(place, "unknown-table", f"its configuration is faulty: {error.message}", fix)
            continue
        for kind, name, query in queries:
            for table in sorted(set(_TABLE.findall(query))):
                bare = table.strip("`'").split(".")[-1].strip("`'")
                if bare not in known:
                    place = source.place(("resources", kind, name), described.target)
                    problem = f"{kind} {name} ({described.target}) reads {bare}, which no stream writes"
                    fix = f"there are {', '.join(sorted(known))}"
                    yield Finding.at(place, "unknown-table", problem, fix)


def tables_of(source: BundleSource, described: Described) -> set[str]:
    """Bare names of the tables that the target's configuration makes: landed, dead letters, metrics."""
    settings = settings_of(source, described)
    found: set[str] = set()
    for name in settings.streams:
        for table in settings.tables(name).values():
            found |= {_bare(str(table)), f"{_bare(str(table))}_dlq"}
    if settings.metrics.table is not None:
        found.add(_bare(str(settings.table(settings.metrics.table))))
    return found


def _bare(table: str) -> str:
    return table.replace("`", "").rsplit("/", 1)[-1].rsplit(".", 1)[-1]


def _queries(source: BundleSource, described: Described) -> Iterator[tuple[str, str, str]]:
    for name, values in (described.resources.get("alerts") or {}).items():
        yield "alerts", name, str(values.get("query_text", ""))
    for name, values in (described.resources.get("dashboards") or {}).items():
        for file, path, _, other, _ in source.resources():
            if other == name and path[-2] == "dashboards":
                for query in _datasets(file.path.parent / str(values.get("file_path"))):
                    yield "dashboards", name, query


def _datasets(path: Any) -> list[str]:
    try:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return ["".join(d.get("queryLines") or [d.get("query", "")]) for d in dashboard.get("datasets", [])]


RULES = (empty_grant, readable_secrets, literal_schema, warehouse, dashboard_file, unknown_table)
