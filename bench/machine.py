"""On what it was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from typing import Any

import psutil

from tidemark.platform.jvm.java import find_java


def machine() -> dict[str, Any]:
    commit = subprocess.run(["git", "describe", "--always"], capture_output=True, text=True, check=False)
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "java": find_java().version,
        "spark": version("pyspark"),
        "delta": version("delta-spark"),
        "tidemark": commit.stdout.strip(),
    }
