"""Resources held against the typed models of the `databricks-bundles` package."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tidemark.bundle.finding import Finding
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


def typed_models(source: BundleSource, targets: Sequence[Described]) -> Iterator[Finding]:
    """Each resource of each target has the fields and values of its model.

    Raises UsageError where the package is not installed.
    """
    for described in targets:
        for kind, named in described.resources.items():
            if kind not in MODELS:
                place = source.place(("resources", kind), described.target)
                fix = f"the kinds known here are {', '.join(MODELS)}"
                yield Finding.at(place, "typed-model", f"{kind} is no kind of resource", fix)
                continue
            for name, values in named.items():
                problem = problem_of(kind, values)
                if problem:
                    at = ("resources", kind, name, *_named_in(problem, values))
                    yield Finding.at(
                        source.place(at, described.target),
                        "typed-model",
                        f"{kind} {name} ({described.target}): {problem}",
                        "see the field's documentation in Databricks' bundle reference",
                    )


def problem_of(kind: str, values: dict[str, Any]) -> str:
    """What the kind's model says against these values; empty where it takes them."""
    try:
        module = importlib.import_module(f"databricks.bundles.{kind}")
    except ModuleNotFoundError as error:
        raise UsageError(
            "the package databricks-bundles is not installed here", "pip install 'tidemark[bundle]'"
        ) from error
    model = getattr(module, MODELS[kind])
    try:
        model.from_dict(values)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _named_in(problem: str, values: dict[str, Any]) -> tuple[str, ...]:
    words = re.findall(r"[a-z_]+", problem)
    return next(((word,) for word in words if word in values), ())
