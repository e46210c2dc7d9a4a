"""Which Java is taken: always by what it says of itself when run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemark.platform.jvm.java import Java, JavaNotFound, find_java, install_command


def java_that_says(folder: Path, version: str, *, status: int = 0) -> Path:
    """A `java` program in `folder/bin` that reports this version, as every JDK does, on stderr."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\ncat >&2 <<END\nProperty settings:\n    java.home = {folder}\n\n"
        f'openjdk version "{version}" 2025-04-15\nEND\nexit {status}\n'
    )
    program.chmod(0o755)
    return folder


def test_the_java_of_this_machine_is_found_and_fits() -> None:
    java = find_java()
    assert java.major in (17, 21)
    assert java.executable.is_file()
    assert java.version.startswith(str(java.major))


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("21.0.1-ea", 21)])
def test_java_home_is_looked_at_first(version: str, major: int, tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "home", version)
    java_that_says(tmp_path / "other", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": str(tmp_path / "other" / "bin")}
    assert find_java(environ=environ, folders=()) == Java(home, home / "bin" / "java", major, version)


def test_the_path_is_used_when_java_home_holds_another_version(tmp_path: Path) -> None:
    environ = {
        "JAVA_HOME": str(java_that_says(tmp_path / "new", "25.0.1")),
        "PATH": f"/nowhere:{java_that_says(tmp_path / 'old', '1.8.0_402') / 'bin'}:"
        f"{java_that_says(tmp_path / 'right', '17.0.2') / 'bin'}",
    }
    assert find_java(environ=environ, folders=()).home == tmp_path / "right"


def test_the_usual_folders_are_searched_when_nothing_is_set(tmp_path: Path) -> None:
    java_that_says(tmp_path / "jvm" / "a-25", "25")
    java_that_says(tmp_path / "jvm" / "b-21", "21.0.3")
    assert find_java(environ={}, folders=(f"{tmp_path}/jvm/*",)).home == tmp_path / "jvm" / "b-21"


def test_the_error_says_what_was_found_and_how_to_install_when_no_java_fits(tmp_path: Path) -> None:
    new = java_that_says(tmp_path / "new", "25.0.1")
    broken = java_that_says(tmp_path / "broken", "17.0.1", status=1)
    environ = {"JAVA_HOME": str(new), "PATH": str(broken / "bin")}
    found = f"{new}/bin/java (25.0.1), {broken}/bin/java (does not run)"
    with pytest.raises(JavaNotFound, match=re.escape(f"Java 17 or 21 is needed; found: {found}")) as caught:
        find_java(environ=environ, folders=())
    assert caught.value.hint == install_command()
    with pytest.raises(JavaNotFound, match="found: none"):
        find_java(environ={}, folders=())


@pytest.mark.parametrize(
    ("tool", "command"),
    [("apt-get", "apt-get install -y openjdk-17-jre-headless"), ("brew", "brew install openjdk@17")],
)
def test_the_command_to_install_java_is_that_of_the_system(tool: str, command: str) -> None:
    assert command in install_command(which=tool)


def test_the_setup_check_says_what_lacks_and_fails_when_there_is_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidemark.platform.jvm import java, ready

    monkeypatch.setattr(ready, "find_java", lambda: java.find_java(environ={}, folders=()))
    assert ready.main() == 1
    output = capsys.readouterr().err
    assert output.startswith("[TIDEMARK_JAVA] Java 17 or 21 is needed; found: none")
    assert "hint: install Java with" in output
    monkeypatch.undo()
    assert ready.main() == 0
    assert "jars in" in capsys.readouterr().err
