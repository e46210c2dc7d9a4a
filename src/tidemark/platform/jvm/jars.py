"""The pinned jars that Spark and the broker run on, downloaded once into a local folder.

The list with sizes and SHA-256 sums is `jars.toml`. The Ivy that pyspark ships downloads missing jars one by one
without their POM files, which takes seconds where a transitive resolve takes a minute. After that nothing here
uses the network. Databricks has its own jars.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Literal

from tidemark.contract.errors import TidemarkError
from tidemark.platform.jvm.ivy import Artifact, IvyFailure, download

JarSet = Literal["spark", "broker", "s3"]
NEWEST = "4.2"
"""The line of Spark whose jars have sets without a suffix; older ones have sets such as `spark-4.1`."""


class JarsMissing(TidemarkError):
    condition = "TIDEMARK_JARS"


@dataclass(frozen=True)
class Jar:
    artifact: Artifact
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact.name}-{self.artifact.version}.jar"


def tidemark_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`TIDEMARK_HOME`, else `tidemark` in the user's cache folder."""
    if home := environ.get("TIDEMARK_HOME"):
        return Path(home).expanduser().absolute()
    return Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "tidemark"


_OF_SPARK: tuple[JarSet, ...] = ("spark", "s3")
"""Sets that belong to one line of Spark; a broker runs in a process of its own."""


@cache
def pinned(jar_set: JarSet) -> tuple[Jar, ...]:
    """The jars of this set for the installed pyspark. Raises JarsMissing where none are pinned."""
    text = resources.files("tidemark.platform.jvm").joinpath("jars.toml").read_text()
    pins = tomllib.loads(text)
    line = spark_line()
    of_line = f"{jar_set}-{line}"
    if jar_set in _OF_SPARK and line != NEWEST and of_line not in pins:
        raise JarsMissing(
            f"no jars of {jar_set} are pinned for Spark {line}",
            hint=f"install pyspark {NEWEST}, or run on a cluster that brings its own",
        )
    return tuple(
        Jar(Artifact.parse(coordinate), pin["size"], pin["sha256"])
        for coordinate, pin in (pins.get(of_line) or pins[jar_set]).items()
    )


def spark_line() -> str:
    """The line of the installed pyspark, such as 4.2; the newest one where none is installed."""
    try:
        return ".".join(metadata.version("pyspark").split(".")[:2])
    except metadata.PackageNotFoundError:
        return NEWEST


def jar_paths(*jar_sets: JarSet, folder: Path | None = None, attempts: int = 3) -> list[Path]:
    """Paths of all jars of these sets, after downloading missing ones with progress on stderr.

    A jar in the folder is complete: it is downloaded into another folder, compared with its pin and renamed.
    Several processes may call this at once, and may be killed at any time.

    Raises:
        JarsMissing: offline and not all are there, or a download is not the pinned file.
    """
    folder = tidemark_home() / "jars" if folder is None else folder
    # Set by set: two sets may pin two versions of one jar, and Ivy would drop the older one.
    for jar_set in jar_sets:
        if _missing(pinned(jar_set), folder):
            _make(folder)
            with _locked(folder):
                # Again: the process that held the lock may have downloaded them.
                if missing := _missing(pinned(jar_set), folder):
                    _download_missing(missing, folder, attempts)
    return list(dict.fromkeys(folder / jar.file_name for jar_set in jar_sets for jar in pinned(jar_set)))


def _missing(jars: Iterable[Jar], folder: Path) -> list[Jar]:
    def complete(path: Path, size: int) -> bool:
        try:
            return path.stat().st_size == size
        except OSError:
            return False

    return [jar for jar in jars if not complete(folder / jar.file_name, jar.size)]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JarsMissing(
            f"the jars are not in {folder}, which cannot be made: {error.strerror}",
            hint="set TIDEMARK_HOME to a folder that has them, or that this user may write",
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download_missing(jars: list[Jar], folder: Path, attempts: int) -> None:
    for left_by_a_killed_process in folder.glob(".incoming-*"):
        shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
    incoming = Path(tempfile.mkdtemp(prefix=".incoming-", dir=folder))
    try:
        arrived = _download_all(jars, incoming, attempts)
        for jar in jars:
            path = arrived[jar.artifact]
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            if found != jar.sha256:
                raise JarsMissing(
                    f"{jar.artifact} is not the pinned file: SHA-256 {found}, expected {jar.sha256}",
                    hint="the repository or a proxy on the way serves another file; "
                    "set TIDEMARK_MAVEN_REPOSITORY to one you trust",
                )
            path.replace(folder / jar.file_name)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _download_all(jars: list[Jar], incoming: Path, attempts: int) -> dict[Artifact, Path]:
    sizes = {jar.artifact: jar.size for jar in jars}
    for attempt in range(1, attempts + 1):
        try:
            return download(sizes, incoming)
        except IvyFailure as failure:
            if attempt == attempts or failure.unreachable:
                megabytes = sum(sizes.values()) / 1e6
                raise JarsMissing(
                    f"{len(sizes)} jars ({megabytes:.0f} MB) are not in {incoming.parent} "
                    f"and could not be downloaded: {failure}",
                    hint="connect to the network once and run the same command again; behind a mirror, "
                    "set TIDEMARK_MAVEN_REPOSITORY to its URL",
                ) from failure
    raise AssertionError("attempts is at least 1")
