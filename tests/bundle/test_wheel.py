"""The wheel as a cluster gets it: small, without Spark, and whole."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--offline", "--no-build-isolation"]
    output = subprocess.run(
        [*build, "--python", sys.executable, "--out-dir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert output.returncode == 0, output.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_is_small_and_asks_for_no_spark(wheel: Path) -> None:
    assert wheel.stat().st_size < 1_000_000
    with zipfile.ZipFile(wheel) as parts:
        (name,) = [n for n in parts.namelist() if n.endswith(".dist-info/METADATA")]
        metadata = message_from_bytes(parts.read(name))
    asked = metadata.get_all("Requires-Dist") or []
    assert asked
    assert [a for a in asked if a.lower().startswith(("pyspark", "delta-spark", "databricks-connect"))] == []
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "src/tidemark"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    wanted = {line.removeprefix("src/") for line in listed.stdout.splitlines()}
    with zipfile.ZipFile(wheel) as parts:
        assert wanted <= set(parts.namelist())


def test_the_wheel_is_imported_in_a_bare_environment(wheel: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=60)
    python = bare / "bin" / "python"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*install, "--python", str(python), str(wheel)], check=True, timeout=60)
    code = "import tidemark, tidemark.contract.errors, tidemark.contract.marks; print(tidemark.__file__)"
    output = subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert output.returncode == 0, output.stderr
    assert str(bare) in output.stdout
