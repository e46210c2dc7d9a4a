"""`python -m tools.notebook_run NAME`: run a notebook unchanged, on a local broker with sample records.

The executed notebook, with the output of each cell, is written next to its tables.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from tidemark.bundle.notebook_source import cells_of
from tidemark.contract.errors import NonRetriableError, TidemarkError, UsageError
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, admin, create_topic, produce
from tidemark.dev.samples import sample_events

TARGET = "notebook"
TOPIC = "user.events.v1"
IN_ORDER = (
    *("create_tables", "ingest", "dead_letters", "explore/records", "explore/dead_letters"),
    *("replay", "maintenance", "report_worker"),
)
"""Every notebook, each after those that give it something to see."""
BEFORE = {
    "dead_letters": ("ingest",),
    "replay": ("ingest", "dead_letters"),
    "maintenance": ("ingest", "dead_letters"),
    "explore/dead_letters": ("ingest", "dead_letters"),
}
"""Notebooks that must run first, because they create the input."""
GIVEN = {"replay": {"stream": "user-events"}, "report_worker": {"run_minutes": "0.1"}}

_FIRST_CELL = """
%reset -f
import os
os.chdir({folder!r})
from IPython.display import display as _display
from tidemark.platform.dbutils import local_dbutils
from tidemark.platform.session import get_session
spark = get_session("notebook")
dbutils = local_dbutils({given!r})

def display(rows):
    _display(rows.limit(100).toPandas())
"""


@dataclass
class NotebookRunner:
    """Runs notebooks of `source`; configuration, tables and results are in `folder`.

    They share a kernel, and so a Spark session; each starts without the names of the previous ones.
    """

    source: Path
    folder: Path
    bootstrap: str
    _client: Any = None

    def prepare(self, *, records: int = 300) -> None:
        """Write the configuration, and produce sample records, some of them bad."""
        shutil.copytree(self.source / "conf", self.folder / "conf")
        overlay = {
            "metrics": {"table": {"bucket": str(self.folder), "path": "batch_metrics"}},
            "reports": {
                "database": f"sqlite:///{self.folder / 'reports.db'}",
                "sources": {"user-events": {"account": "user_id", "value": "amount", "at": "event_time"}},
            },
        }
        (self.folder / "conf" / f"tidemark.{TARGET}.yml").write_text(yaml.safe_dump(overlay))
        create_topic(self.bootstrap, TOPIC, 3, retention_ms="-1")
        existing = admin(self.bootstrap).list_topics(timeout=10).topics
        for name in ("bim-report-requested", "bim-report-requested-dlq"):
            if name not in existing:
                create_topic(self.bootstrap, name, 6)
        events = sample_events(records, bad_share=0.1, seed=1)
        produce(
            self.bootstrap,
            TOPIC,
            [SampleRecord(e.record.value, key=e.record.key, headers=e.record.headers) for e in events],
        )

    def run(self, name: str, given: Mapping[str, str] | None = None) -> Path:
        """Execute the notebook; the path of the executed one. Raises NonRetriableError with the cell's error."""
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError

        notebook = self._notebook(name, given or {})
        if self._client is None:
            self._client = NotebookClient(notebook, timeout=300, kernel_name="python3")
        self._client.nb = notebook
        executed = self.folder / "executed" / f"{name}.ipynb"
        executed.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._client.execute(cleanup_kc=False)
        except CellExecutionError as error:
            raise NonRetriableError(f"notebook {name}: {error.ename}: {error.evalue}") from error
        finally:
            format_of_notebooks().write(notebook, executed)
        return executed

    def close(self) -> None:
        """End the kernel, if one was started."""
        if self._client is not None and self._client.km is not None:
            self._client._cleanup_kernel()

    def _notebook(self, name: str, given: Mapping[str, str]) -> Any:
        v4 = format_of_notebooks().v4
        path = notebook_file(self.source, name)
        values = {
            "config": str(self.folder / "conf" / "tidemark.yml"),
            "target": TARGET,
            "kafka_bootstrap": self.bootstrap,
            **GIVEN.get(name, {}),
            **given,
        }
        first = _FIRST_CELL.strip().format(folder=str(path.parent), given=values)
        cells = [v4.new_code_cell(first, metadata={"tags": ["injected-parameters"]})]
        for cell in cells_of(path.read_text(encoding="utf-8")):
            made = v4.new_code_cell if cell.kind == "code" else v4.new_markdown_cell
            cells.append(made(cell.text))
        return v4.new_notebook(cells=cells)


def notebook_file(source: Path, name: str) -> Path:
    """The notebook's file. Raises UsageError for an unknown notebook."""
    folder = source / "notebooks"
    path = folder / f"{name}.py"
    if not path.is_file():
        there = sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.py"))
        raise UsageError(f"there is no notebook {name}", f"there are {', '.join(there)}")
    return path


def format_of_notebooks() -> Any:
    """The package `nbformat`, whose functions have no types."""
    return importlib.import_module("nbformat")


@contextmanager
def notebook_runner(source: Path, folder: Path, bootstrap: str) -> Iterator[NotebookRunner]:
    """A runner over sample records; `folder` starts empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    runner = NotebookRunner(source.resolve(), folder.resolve(), bootstrap)
    runner.prepare()
    try:
        yield runner
    finally:
        runner.close()


def main(name: str) -> int:
    """0 after the notebook has run to its end, else the error's exit code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    os.environ.setdefault("TIDEMARK_DRIVER_MEMORY", "1g")
    try:
        notebook_file(Path(), name)
        with (
            EmbeddedBroker() as broker,
            notebook_runner(Path(), Path(".tidemark/notebooks"), broker.bootstrap) as runner,
        ):
            for each in (*BEFORE.get(name, ()), name):
                console.print(f"Running notebooks/{each}.py")
                executed = runner.run(each)
    except TidemarkError as error:
        console.print(str(error), style="red", markup=False)
        return error.exit_code
    _show(console, executed)
    console.print(f"Executed notebook: {os.path.relpath(executed)}")
    return 0


def _show(console: Console, executed: Path) -> None:
    for cell in json.loads(executed.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            text = output.get("data", {}).get("text/plain", "")
            if text:
                console.print("".join(text), markup=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
