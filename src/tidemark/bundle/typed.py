"""Compares resources with the typed models of the `databricks-bundles` package."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tidemark.bundle.finding import Found
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.contract.errors import UsageError

MODELS = {
    "alerts": "Alert",
    "apps": "App",
    "catalogs": "Catalog",
    "clusters": "Cluster",
    "dashboards": "Dashboard",
    "jobs": "Job",
    "job_runs": "JobRun",
    "quality_monitors": "QualityMonitor",
    "schemas": "Schema",
    "secret_scopes": "SecretScope",
    "sql_warehouses": "SqlWarehouse",
    "volumes": "Volume",
}


def typed_model(source: BundleSource, targets: Sequence[Described]) -> Iterator[Found]:
    """Each resource of each target has the fields and values of its model.

    Raises UsageError where the package is not installed.
    """
    for described in targets:
        for kind, named in described.resources.items():
            if kind not in MODELS:
                place = source.place(("resources", kind), described.target)
                yield place, f"{kind} is not a kind of resource", f"the known kinds are {', '.join(MODELS)}"
                continue
            for name, values in named.items():
                if problem := problem_of(kind, values):
                    key = next((word for word in re.findall(r"[a-z_]+", problem) if word in values), None)
                    at = ("resources", kind, name, *([key] if key else []))
                    place = source.place(at, described.target)
                    fix = "see the field's documentation in Databricks' bundle reference"
                    yield place, f"{kind} {name} ({described.target}): {problem}", fix


def problem_of(kind: str, values: dict[str, Any]) -> str:
    """Why the kind's model refuses these values; empty where it accepts them."""
    try:
        module = importlib.import_module(f"databricks.bundles.{kind}")
    except ModuleNotFoundError as error:
        raise UsageError(
            "the package databricks-bundles is not installed here", "pip install 'tidemark[bundle]'"
        ) from error
    try:
        getattr(module, MODELS[kind]).from_dict(values)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""
