"""The configuration that the jobs of a target load, as far as it is known without a workspace."""

from __future__ import annotations

from tidemark.bundle.finding import Found
from tidemark.bundle.source import BundleSource
from tidemark.bundle.target import Described
from tidemark.config.reading.load import load_settings
from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError

CONFIGURATION = "conf/tidemark.yml"


def settings_of(source: BundleSource, described: Described) -> Settings:
    """Raises ConfigError with every fault of it. Values that only a run has are invented."""
    variables = described.values["variables"]
    schema = described.named("schemas").get("streaming") or {}
    environ = _AnyVariable(
        TIDEMARK_CATALOG=str(variables.get("catalog")), TIDEMARK_SCHEMA=str(schema.get("name"))
    )
    target = str(variables.get("config_target") or "") or None
    return load_settings(source.root / CONFIGURATION, target=target, environ=environ)


def workers_of(source: BundleSource, described: Described) -> int:
    """The number of report workers in the configuration; 1 where it cannot be read, or has no reports."""
    try:
        reports = settings_of(source, described).reports
    except ConfigError:
        return 1
    return reports.workers if reports is not None else 1


def faulty_configuration(described: Described, error: ConfigError) -> Found:
    fix = f"tidemark check --config {CONFIGURATION} --target {described.target}"
    return described.place("targets", described.target), f"its configuration is faulty: {error.message}", fix


class _AnyVariable(dict[str, str]):
    """An environment that has every variable: the checks do not depend on the values of the others."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "localhost:9092" if "BOOTSTRAP" in name else "set-at-run-time"
