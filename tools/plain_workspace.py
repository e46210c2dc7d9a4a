"""What a workspace gives a notebook, with nothing of Tidemark: the source of the first cell of `plain_notebooks`.

`PLAIN_WORKSPACE` holds the notebook's path, its widgets' values and the settings of the cluster's session, as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

_given = json.loads(os.environ["PLAIN_WORKSPACE"])


class _Widgets(dict[str, str]):
    def text(self, name: str, default: str = "", label: str | None = None) -> None:
        self[name] = _given["widgets"].get(name, default)

    def dropdown(self, name: str, default: str, choices: Sequence[str], label: str | None = None) -> None:
        self[name] = _given["widgets"].get(name, default)
        assert self[name] in choices, f"{name} is {self[name]}, not one of {choices}"

    def getAll(self) -> dict[str, str]:
        return dict(self)


class _Secrets:
    def get(self, scope: str, key: str) -> str:
        raise LookupError(f"Secret does not exist with scope: {scope} and key: {key}")


_context = SimpleNamespace(notebookPath=lambda: SimpleNamespace(get=lambda: _given["path"]))
_utils = SimpleNamespace(notebook=lambda: SimpleNamespace(getContext=lambda: _context))
dbutils = SimpleNamespace(
    widgets=_Widgets(),
    secrets=_Secrets(),
    library=SimpleNamespace(restartPython=lambda: print("restarted")),  # noqa: T201
    notebook=SimpleNamespace(entry_point=SimpleNamespace(getDbutils=lambda: _utils)),
)


def display(rows: Any) -> None:
    print(rows.limit(100).toPandas())  # noqa: T201


if _given["session"]:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.config(map=_given["session"]).getOrCreate()
