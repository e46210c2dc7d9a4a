"""`dbutils` outside Databricks: widgets, secrets and exit, so that a notebook runs unchanged."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemark.contract.errors import UsageError

SECRET_PREFIX = "TIDEMARK_SECRET_"


class NotebookExit(Exception):
    """`dbutils.notebook.exit(value)`: the notebook is done, with this result."""


@dataclass
class LocalWidgets:
    """Values of a job or a person, over the defaults that the notebook declares."""

    given: Mapping[str, str] = field(default_factory=dict)
    _defaults: dict[str, str] = field(default_factory=dict)

    def text(self, name: str, default: str = "", label: str | None = None) -> None:
        self._defaults[name] = default

    def dropdown(self, name: str, default: str, choices: Sequence[str], label: str | None = None) -> None:
        """Raises UsageError for a value that is not one of the choices."""
        self._defaults[name] = default
        if self.get(name) not in choices:
            raise UsageError(f"{name} is {self.get(name)}", f"one of {', '.join(choices)}")

    combobox = dropdown

    def get(self, name: str) -> str:
        """Raises UsageError for a widget that the notebook does not declare."""
        if name not in self._defaults:
            raise UsageError(f"the notebook has no widget {name}", f"it has {', '.join(self._defaults)}")
        return self.given.get(name, self._defaults[name])

    def getAll(self) -> dict[str, str]:
        return {name: self.get(name) for name in self._defaults}


@dataclass(frozen=True)
class LocalSecrets:
    """Secrets from the environment: `TIDEMARK_SECRET_<SCOPE>_<KEY>`, in capitals, underscores for signs."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def get(self, scope: str, key: str) -> str:
        """Raises UsageError, which names the variable, where there is no such secret."""
        name = SECRET_PREFIX + _variable(scope) + "_" + _variable(key)
        if name not in self.environ:
            raise UsageError(f"scope {scope} has no secret {key} here", f"set {name}")
        return self.environ[name]


class LocalNotebook:
    def exit(self, value: str) -> None:
        """Raises NotebookExit."""
        raise NotebookExit(value)


@dataclass(frozen=True)
class LocalDbutils:
    """The parts of `dbutils` that the notebooks use; any other part raises UsageError."""

    widgets: LocalWidgets = field(default_factory=LocalWidgets)
    secrets: LocalSecrets = field(default_factory=LocalSecrets)
    notebook: LocalNotebook = field(default_factory=LocalNotebook)

    def __getattr__(self, name: str) -> Any:
        raise UsageError(f"dbutils.{name} exists on Databricks only")


def local_dbutils(given: Mapping[str, str] | None = None) -> LocalDbutils:
    """A `dbutils` whose widgets hold these values."""
    return LocalDbutils(LocalWidgets(given or {}))


def _variable(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text).upper()
