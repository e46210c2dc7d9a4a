"""Rules of Unity Catalog and SQL warehouses: grants, volumes, alerts, dashboards, table names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidemark.bundle.configuration import faulty_configuration, settings_of
from tidemark.bundle.finding import Found
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.contract.errors import ConfigError

_TABLE = re.compile(r"\b(?:FROM|JOIN)\s+(?:IDENTIFIER\('?)?([`\w.${}\[\]-]+)", re.IGNORECASE)


def empty_grant(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A grant has a principal and privileges."""
    for each in source.resources():
        for i, grant in enumerate(each.values.get("grants") or []):
            if not grant.get("principal") or not grant.get("privileges"):
                problem = f"a grant of {each.kind} {each.name} lacks its principal or its privileges"
                yield each.place("grants", i), problem, "name both, or remove the grant"


def readable_secrets(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """No bundle-wide CAN_VIEW together with a secret scope: the CLI turns it into READ of the scope."""
    for described in targets:
        for entry in described.permissions if described.named("secret_scopes") else ():
            if entry.get("level") == "CAN_VIEW":
                reader = next((str(v) for k, v in entry.items() if k != "level"), "somebody")
                problem = f"CAN_VIEW on all of {described.target} lets {reader} read the secrets"
                fix = "give permissions to single resources instead, such as ${var.job_permissions}"
                yield described.place("permissions"), problem, fix


def literal_schema(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A volume's schema is a reference to the bundle's own: development mode gives it another name."""
    for each in source.resources():
        schema = str(each.values.get("schema_name", ""))
        if each.kind == "volumes" and schema and not schema.startswith("${resources.schemas."):
            fix = "refer to it: ${resources.schemas.<key>.name}"
            yield each.place("schema_name"), f"volume {each.name} names the schema {schema}", fix


def warehouse(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Alerts and dashboards run on a warehouse."""
    for described in targets:
        for kind in ("alerts", "dashboards"):
            for name, values in described.named(kind).items():
                if "warehouse_id" not in values:
                    problem = f"{kind} {name} ({described.target}) has no warehouse_id"
                    place = described.place("resources", kind, name)
                    yield place, problem, "warehouse_id: ${var.warehouse_id}"


def dashboard_file(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """A dashboard's file exists and is JSON without references: those are not filled in."""
    for each in source.resources():
        if each.kind != "dashboards" or "file_path" not in each.values:
            continue
        place = each.place("file_path")
        try:
            text = source.relative_to(each.file, each.values["file_path"]).read_text(encoding="utf-8")
            json.loads(text)
        except (OSError, ValueError) as error:
            problem = f"the file of dashboard {each.name} cannot be read: {error}"
            yield place, problem, "correct file_path, relative to this file"
            continue
        if "${" in text:
            fix = "use bare table names with dataset_catalog and dataset_schema"
            yield place, f"the file of dashboard {each.name} contains a reference", fix


def unknown_table(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Alerts and dashboards read tables that the configuration of their target creates."""
    for described in targets:
        queries = list(_queries(source, described))
        if not queries:
            continue
        try:
            known = tables_of(source, described)
        except ConfigError as error:
            yield faulty_configuration(described, error)
            continue
        for kind, name, query in queries:
            for table in {t.strip("`'").split(".")[-1].strip("`'") for t in _TABLE.findall(query)} - known:
                problem = f"{kind} {name} ({described.target}) reads {table}, which no stream writes"
                place = described.place("resources", kind, name)
                yield place, problem, f"there are {', '.join(sorted(known))}"


def tables_of(source: BundleSource, described: Described) -> set[str]:
    """Bare names of the tables that the target's configuration creates: landed, dead letters, metrics, breakers."""
    settings = settings_of(source, described)
    landed = {_bare(str(t)) for name in settings.streams for t in settings.tables(name).values()}
    kept = settings.metrics.table
    metrics = None if kept is None else settings.table(kept)
    return {
        *landed,
        *(f"{table}_dlq" for table in landed),
        *((_bare(str(t)) for t in (metrics, metrics.breakers)) if metrics is not None else ()),
    }


def _bare(table: str) -> str:
    return table.replace("`", "").rsplit("/", 1)[-1].rsplit(".", 1)[-1]


def _queries(source: BundleSource, described: Described) -> Iterator[tuple[str, str, str]]:
    for name, values in described.named("alerts").items():
        yield "alerts", name, str(values.get("query_text", ""))
    for name, values in described.named("dashboards").items():
        for each in source.resources():
            if (each.kind, each.name) == ("dashboards", name):
                for query in _datasets(source.relative_to(each.file, str(values.get("file_path")))):
                    yield "dashboards", name, query


def _datasets(path: Path) -> list[str]:
    try:
        dashboard = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return ["".join(d.get("queryLines") or [d.get("query", "")]) for d in dashboard.get("datasets", [])]


RULES = (empty_grant, readable_secrets, literal_schema, warehouse, dashboard_file, unknown_table)
