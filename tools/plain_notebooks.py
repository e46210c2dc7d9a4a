"""`python -m tools.plain_notebooks`: every notebook, in order, as a person opens it in a workspace.

The environment has Spark, Delta and a kernel, as a cluster has, and nothing of ours: a notebook's first cell has to
bring the package, from the wheel of a deployment, and once from a checkout. Python starts anew after that cell.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from rich.console import Console

from tidemark.bundle.notebook_source import cells_of
from tidemark.dev.broker import EmbeddedBroker
from tidemark.platform.jvm.jars import jar_paths
from tidemark.platform.jvm.java import find_java
from tidemark.platform.spark_conf import CATALOG, EXTENSION
from tools.notebook_run import GIVEN, IN_ORDER, TARGET, NotebookRunner, format_of_notebooks

ROOT = Path(__file__).parents[1]
PLAIN = ROOT / "build" / "plain"
CHECKOUT = ("src", "conf", "notebooks", "pyproject.toml", "README.md", "LICENSE")
_UV = str(ROOT / ".venv" / "bin" / "uv")


def make_environment() -> Path:
    """A Python environment like a cluster's, without Tidemark; its interpreter."""
    python = PLAIN / "bin" / "python"
    if not python.exists():
        subprocess.run([_UV, "venv", "--quiet", "--seed", "--python", sys.executable, str(PLAIN)], check=True)
        install = [_UV, "pip", "install", "--quiet", "--python", str(python), "--group", "spark", "ipykernel"]
        subprocess.run(install, cwd=ROOT, check=True)
    return python


def forget_package(python: Path) -> None:
    subprocess.run(
        [_UV, "pip", "uninstall", "--quiet", "--python", str(python), "tidemark"],
        check=True,
        stderr=subprocess.DEVNULL,
    )


def lay_out(folder: Path, *, checkout: bool) -> None:
    """What a deployment uploads, or a Git folder: next to the configuration that is there already."""
    if checkout:
        for name in CHECKOUT:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / name, folder / name)
        return
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "app").mkdir()
    subprocess.run(["sh", str(ROOT / ".ci" / "wheel")], check=True)
    for wheel in (ROOT / "dist").glob("*.whl"):
        shutil.copy(wheel, folder / "app")


def session_of_cluster() -> dict[str, str]:
    return {
        "spark.jars": ",".join(str(jar) for jar in jar_paths("spark")),
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }


def environment_of(python: Path, workspace: dict[str, Any]) -> dict[str, str]:
    """The kernel's: nothing that could lead it to this project's own environment."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "TIDEMARK_CONFIG")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {
        **kept,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": str(python),
        "PLAIN_WORKSPACE": json.dumps(workspace),
    }


def run_cells(python: Path, folder: Path, cells: list[str], workspace: dict[str, Any]) -> str:
    """Run these cells in a kernel of their own, after what a workspace gives; what they printed."""
    v4 = format_of_notebooks().v4
    given = (ROOT / "tools" / "plain_workspace.py").read_text(encoding="utf-8")
    notebook = v4.new_notebook(cells=[v4.new_code_cell(text) for text in (given, *cells)])
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
    manager = client.create_kernel_manager()
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    # Java's own lines are no output of a notebook; what fails in a cell is raised.
    client.execute(env=environment_of(python, workspace), stderr=subprocess.DEVNULL)
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", []) if o.get("name") != "stderr"]
    return "\n".join(str(o.get("text", o.get("data", {}).get("text/plain", ""))) for o in outputs)


def run_notebook(python: Path, folder: Path, name: str, widgets: dict[str, str]) -> str:
    """The first code cell, a new Python, and the others. Raises CellExecutionError."""
    file = folder / "notebooks" / f"{name}.py"
    first, *others = [c.text for c in cells_of(file.read_text(encoding="utf-8")) if c.kind == "code"]
    workspace: dict[str, Any] = {"path": f"/not-there/notebooks/{name}", "widgets": widgets, "session": {}}
    said = run_cells(python, file.parent, [first], workspace)
    if "restarted" not in said:
        raise RuntimeError(f"the first cell of {name} found the package: {said}")
    return run_cells(python, file.parent, others, {**workspace, "session": session_of_cluster()})


def main() -> int:
    """0 once every notebook ran to its end."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print("Making an environment with Spark and Delta alone")
    python = make_environment()
    for kind, names in (("deployment", IN_ORDER), ("checkout", IN_ORDER[:1])):
        with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            NotebookRunner(ROOT, folder, broker.bootstrap).prepare()
            lay_out(folder, checkout=kind == "checkout")
            for name in names:
                console.print(f"{kind}: notebooks/{name}.py")
                forget_package(python)
                widgets = {"target": TARGET, "kafka_bootstrap": broker.bootstrap, **GIVEN.get(name, {})}
                try:
                    console.print(run_notebook(python, folder, name, widgets), markup=False)
                except CellExecutionError as error:
                    console.print(str(error), style="red", markup=False)
                    return 1
    console.print("Every notebook ran with what its first cell brought")
    return 0


if __name__ == "__main__":
    sys.exit(main())
