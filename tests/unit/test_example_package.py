"""The example package, installed: Tidemark finds by entry point what it brings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "tidemark-acme"
FOUND = """
import json
from tidemark.reports.run import all_strategies
from tidemark.resilience.classification import classifier_for

class WarehouseBusy(Exception):
    pass

verdict = classifier_for(()).classify(WarehouseBusy("try later"))
print(json.dumps({
    "rule": verdict.rule,
    "max_retries": verdict.max_retries,
    "strategies": sorted(all_strategies()),
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("acme")
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    options = ["--offline", "--no-deps", "--no-build-isolation", "--target", str(target), str(EXAMPLE)]
    subprocess.run([*install, *options], check=True)
    return target


def test_an_installed_package_brings_its_classification_rules_and_report_strategies(installed: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run(
        [sys.executable, "-c", FOUND], env=environment, check=True, capture_output=True, text=True
    )
    found = json.loads(ran.stdout)
    assert found["rule"] == "acme-warehouse-busy"
    assert found["max_retries"] == 10
    assert "BUSIEST" in found["strategies"]


def test_nothing_of_it_is_there_when_it_is_not_installed() -> None:
    ran = subprocess.run([sys.executable, "-c", FOUND], check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout)
    assert found["rule"] != "acme-warehouse-busy"
    assert "BUSIEST" not in found["strategies"]
