"""Finds the Java that Spark and the embedded broker run on: 17 or 21, nothing else.

Spark 4 refuses older versions and fails in unexpected places on newer ones, so a Java is accepted by the version
that it reports, never by the name of its folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from tidemark.contract.errors import TidemarkError

SUPPORTED: Final = (17, 21)

USUAL_FOLDERS: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
    "~/.asdf/installs/java/*",
    "~/.local/share/mise/installs/java/*",
)


class JavaNotFound(TidemarkError):
    condition = "TIDEMARK_JAVA"


@dataclass(frozen=True)
class Java:
    home: Path
    executable: Path
    major: int
    version: str


def find_java(*, environ: Mapping[str, str] | None = None, folders: Iterable[str] = USUAL_FOLDERS) -> Java:
    """The first Java 17 or 21 of `JAVA_HOME`, then `PATH`, then the usual folders.

    A `JAVA_HOME` with another version is skipped: it is often set for other programs.

    Raises:
        JavaNotFound: none is suitable; the message lists the ones found, the hint how to install one.
    """
    variables = os.environ if environ is None else environ
    unsuitable: dict[str, str] = {}
    seen: set[Path] = set()
    for executable in _candidates(variables, folders):
        try:
            real = executable.resolve()
        except OSError:
            continue
        if real in seen or not executable.is_file():
            continue
        seen.add(real)
        java = _examine(str(executable))
        if java is not None and java.major in SUPPORTED:
            return java
        unsuitable[str(executable)] = java.version if java else "does not run"
    found = ", ".join(f"{path} ({version})" for path, version in unsuitable.items()) or "none"
    raise JavaNotFound(f"Java 17 or 21 is needed; found: {found}", hint=install_command())


def install_command(*, platform: str = sys.platform, which: str | None = None) -> str:
    """A hint with the command that installs a suitable Java here."""
    installers = {
        "apt-get": "sudo apt-get install -y openjdk-17-jre-headless",
        "dnf": "sudo dnf install -y java-17-openjdk-headless",
        "apk": "sudo apk add openjdk17-jre-headless",
        "pacman": "sudo pacman -S jre17-openjdk-headless",
        "brew": "brew install openjdk@17",
    }
    if which is None:
        which = next((tool for tool in installers if shutil.which(tool)), None)
    if which is None:
        which = "brew" if platform == "darwin" else "apt-get"
    return f"install Java with `{installers[which]}`, or point JAVA_HOME at a Java 17 or 21"


def _candidates(environ: Mapping[str, str], folders: Iterable[str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    for entry in environ.get("PATH", "").split(os.pathsep):
        if entry:
            yield Path(entry) / "java"
    for pattern in folders:
        path = Path(pattern).expanduser()
        anchor = Path(path.anchor)
        for folder in sorted(anchor.glob(str(path.relative_to(anchor)))):
            yield folder / "bin" / "java"


@lru_cache(maxsize=64)
def _examine(executable: str) -> Java | None:
    """Runs `java -version` with its properties shown; None if that is not a working Java."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    text = answer.stderr + answer.stdout
    version = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', text)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    if answer.returncode != 0 or version is None or home is None:
        return None
    folder = Path(home[1])
    return Java(folder, folder / "bin" / "java", int(version[2]), version[1])
