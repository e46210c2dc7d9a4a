"""Which Spark a process uses, told without starting any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ASK = """
from tidemark.platform.session import get_session, on_databricks
print(on_databricks(), get_session("console"))
"""
CLIENT = """
class _Builder:
    def getOrCreate(self):
        return "a session on Databricks"


class DatabricksSession:
    builder = _Builder()
"""


def test_the_session_is_that_of_databricks_connect_when_it_is_installed(tmp_path: Path) -> None:
    """The package itself cannot be installed beside pyspark: it brings a pyspark of its own."""
    package = tmp_path / "databricks" / "connect"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CLIENT, encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if k not in ("DATABRICKS_RUNTIME_VERSION", "SPARK_REMOTE")}
    output = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**kept, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert output.stdout.strip() == "True a session on Databricks", output.stderr
