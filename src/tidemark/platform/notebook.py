"""The settings of a notebook's run, from its widgets, secrets and location."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from tidemark.config.reading.faults import ConfigurationFaults
from tidemark.config.reading.load import load_settings
from tidemark.config.serverless import serverless_faults
from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError

log = structlog.get_logger(__name__)

CONFIGURATION = "conf/tidemark.yml"
VOLUMES = "/Volumes/"
"""Folders that Databricks' compute has, and an app has not."""
AVAILABLE_NOW = "availableNow"
PROCESSING_TIME = "processingTime"
_VARIABLES = {
    "catalog": "TIDEMARK_CATALOG",
    "schema": "TIDEMARK_SCHEMA",
    "kafka_bootstrap": "KAFKA_BOOTSTRAP_SERVERS",
}
"""Widgets that fill placeholders of the configuration."""
_SERVICE_CREDENTIAL = "kafka.security.service-credential"


class NotebookEnvironment(Mapping[str, str]):
    """The environment for `${NAME}`: widgets, then the process's environment, then the secret scope, where
    `KAFKA_PASSWORD` is the key `kafka-password`. A secret is read on access.
    """

    def __init__(self, widgets: Mapping[str, str], secrets: Any, environ: Mapping[str, str]) -> None:
        named = {_VARIABLES[k]: v for k, v in widgets.items() if k in _VARIABLES and v}
        self._values = {**environ, **named}
        self._secrets, self._scope = secrets, widgets.get("secret_scope", "")

    def __getitem__(self, name: str) -> str:
        if name in self._values:
            return self._values[name]
        if self._scope:
            try:
                return str(self._secrets.get(self._scope, name.lower().replace("_", "-")))
            except Exception as error:  # the error's class is Databricks' own and differs by runtime
                raise KeyError(name) from error
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class NotebookRun:
    """One run of a notebook: the settings, and the values of its widgets."""

    settings: Settings
    values: Mapping[str, str] = field(repr=False)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of widget `streams` or `stream`; empty means all. Raises UsageError for others."""
        written = self.values.get("streams") or self.values.get("stream") or ""
        names = self.many(written)
        for name in names:
            self.settings.stream(name)
        return names

    @property
    def available_now(self) -> bool:
        return self.values.get("trigger", AVAILABLE_NOW) == AVAILABLE_NOW

    @staticmethod
    def many(written: str) -> tuple[str, ...]:
        """The parts of a comma-separated text."""
        return tuple(part.strip() for part in written.split(",") if part.strip())


def open_notebook(dbutils: Any, environ: Mapping[str, str] = os.environ) -> NotebookRun:
    """Read the widgets and load the configuration that they name, or that of the notebook's folder.

    Raises ConfigError for a trigger that the compute cannot run, and with every fault of the configuration.
    """
    values: dict[str, str] = dict(dbutils.widgets.getAll())
    trigger = values.get("trigger", AVAILABLE_NOW)
    if trigger not in (AVAILABLE_NOW, PROCESSING_TIME):
        raise ConfigError(f"trigger {trigger} is not known", f"{AVAILABLE_NOW} or {PROCESSING_TIME}")
    if trigger == PROCESSING_TIME and on_serverless(environ):
        raise ConfigError(
            f"serverless compute runs no stream with the trigger {PROCESSING_TIME}",
            f"trigger: {AVAILABLE_NOW} on a schedule, or a job cluster (tidemark bundle compute)",
        )
    credential = values.get("kafka_service_credential", "")
    settings = load_settings(
        values["config"] or configuration_of(dbutils),
        target=values.get("target") or None,
        overrides={_SERVICE_CREDENTIAL: credential} if credential else None,
        environ=NotebookEnvironment(values, dbutils.secrets, environ),
    )
    if on_serverless(environ) and (faults := list(serverless_faults(settings))):
        raise ConfigurationFaults(faults)
    return NotebookRun(settings, values)


def app_environment(environ: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """The environment for `${NAME}` in a Databricks App: its own, then the secret scope that
    `TIDEMARK_SECRET_SCOPE` names, read with the app's identity; elsewhere the environment alone.
    """
    scope = environ.get("TIDEMARK_SECRET_SCOPE")
    if not scope:
        return environ
    from databricks.sdk import WorkspaceClient

    return NotebookEnvironment({"secret_scope": scope}, WorkspaceClient().dbutils.secrets, environ)


def configuration_of(dbutils: Any) -> Path:
    """`conf/tidemark.yml` of the deployment or checkout that contains the notebook, in any working directory.

    Raises ConfigError where there is none.
    """
    places = [Path.cwd(), *Path.cwd().parents]
    try:
        context = dbutils.notebook.entry_point.getDbutils().notebook().getContext()
        places += Path("/Workspace" + context.notebookPath().get()).parents
    except Exception as error:  # the error of a missing context differs by runtime
        log.debug("the notebook's own path is not known", error=repr(error))
    for place in places:
        if (found := place / CONFIGURATION).is_file():
            return found
    raise ConfigError(
        f"no {CONFIGURATION} in the folders above this notebook",
        "give its whole path in the widget config, such as /Workspace/Users/…/conf/tidemark.yml",
    )


def on_serverless(environ: Mapping[str, str] = os.environ) -> bool:
    return environ.get("DATABRICKS_RUNTIME_VERSION", "").startswith("client.")


def in_app(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is a Databricks App."""
    return "DATABRICKS_APP_PORT" in environ
