"""The archive of Spark's classes: used where it fits, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tidemark.platform.jvm.class_archive import archive_path, create_archive
from tidemark.platform.jvm.jars import tidemark_home
from tidemark.platform.jvm.java import find_java

SESSION = """
from pathlib import Path
from tidemark.platform.session import local_session
spark = local_session(master="local[1]")
pid = spark._jvm.java.lang.ProcessHandle.current().pid()
print([line.split("/")[-1] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "classes-" in line][-1:])
print(spark.range(3).count())
"""
HARMLESS = "WARNING: Using incubator modules: jdk.incubator.vector"


def session_in(home: Path) -> list[str]:
    """What a process that starts Spark prints, on stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        env={**os.environ, "TIDEMARK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [line for line in (done.stdout + done.stderr).splitlines() if line != HARMLESS]


def home_with_jars(folder: Path) -> Path:
    folder.mkdir()
    (folder / "jars").symlink_to(tidemark_home() / "jars")
    return folder


def test_spark_loads_the_classes_that_java_wrote_down(tmp_path: Path) -> None:
    archive = create_archive(find_java(), tidemark_home())
    assert archive is not None
    assert session_in(tidemark_home()) == [f"['{archive.name}']", "3"]
    elsewhere = home_with_jars(tmp_path / "a home")
    assert session_in(elsewhere) == ["[]", "3"], "without an archive"
    (elsewhere / archive.name).symlink_to(archive)
    assert session_in(elsewhere) == [f"['{archive.name}']", "3"], "in a folder whose name has a space"


def test_an_archive_that_does_not_fit_is_passed_over_in_silence(tmp_path: Path) -> None:
    home = home_with_jars(tmp_path / "home")
    archive = archive_path(find_java(), home)
    assert archive is not None
    archive.write_bytes(b"not an archive")
    assert session_in(home) == ["[]", "3"]


def test_an_archive_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.touch()
    assert create_archive(find_java(), home) is None
