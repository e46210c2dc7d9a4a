"""The pinned jars that Spark and the broker run on, downloaded once into a local folder.

The list with sizes and SHA-256 sums is `jars.toml`; it is complete, so no dependencies are resolved. After the
download nothing here uses the network. Databricks has its own jars and needs none of this.
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

import httpx
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from tidemark.contract.errors import TidemarkError

JarSet = Literal["spark", "broker", "s3"]
NEWEST = "4.2"
"""The line of Spark whose jars have sets without a suffix; older ones have sets such as `spark-4.1`."""
CENTRAL = "https://repo1.maven.org/maven2"
_TIMEOUT_S = 30.0


class JarsMissing(TidemarkError):
    condition = "TIDEMARK_JARS"


@dataclass(frozen=True)
class Jar:
    """`coordinate` is Maven's `organisation:name:version`."""

    coordinate: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        _, name, version = self.coordinate.split(":")
        return f"{name}-{version}.jar"

    @property
    def path(self) -> str:
        """Its path in a Maven repository."""
        organisation, name, version = self.coordinate.split(":")
        return f"{organisation.replace('.', '/')}/{name}/{version}/{self.file_name}"


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
    found = pins.get(of_line) or pins[jar_set]
    return tuple(Jar(coordinate, pin["size"], pin["sha256"]) for coordinate, pin in found.items())


def spark_line() -> str:
    """The line of the installed pyspark, such as 4.2; the newest one where none is installed."""
    try:
        return ".".join(metadata.version("pyspark").split(".")[:2])
    except metadata.PackageNotFoundError:
        return NEWEST


def jar_paths(*jar_sets: JarSet, folder: Path | None = None, attempts: int = 3) -> list[Path]:
    """Paths of all jars of these sets, after downloading missing ones with progress on stderr.

    A jar in the folder is complete: it is downloaded next to it, compared with its pin and renamed. Several
    processes may call this at once, and may be killed at any time.

    Raises:
        JarsMissing: offline and not all are there, or a download is not the pinned file.
    """
    folder = tidemark_home() / "jars" if folder is None else folder
    wanted = list(dict.fromkeys(jar for jar_set in jar_sets for jar in pinned(jar_set)))
    if _missing(wanted, folder):
        _make(folder)
        with _locked(folder):
            # Again: the process that held the lock may have downloaded them.
            if missing := _missing(wanted, folder):
                _download(missing, folder, attempts)
    return list(dict.fromkeys(folder / jar.file_name for jar in wanted))


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


def _download(jars: list[Jar], folder: Path, attempts: int) -> None:
    for left_by_a_killed_process in folder.glob(".incoming-*"):
        shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
    incoming = Path(tempfile.mkdtemp(prefix=".incoming-", dir=folder))
    size = sum(jar.size for jar in jars)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress, _client() as client:
            task = progress.add_task(f"Downloading {len(jars)} jars, once", total=size)
            for jar in jars:
                arrived = incoming / jar.file_name
                _fetch(client, jar, arrived, attempts)
                progress.advance(task, jar.size)
                arrived.replace(folder / jar.file_name)
    except httpx.HTTPError as error:
        raise JarsMissing(
            f"{len(jars)} jars ({size / 1e6:.0f} MB) are not in {folder} and could not be downloaded:"
            f" {jar.coordinate}: {_why(error)}",
            hint="connect to the network once and run the same command again; behind a mirror, "
            "set TIDEMARK_MAVEN_REPOSITORY to its URL",
        ) from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _client() -> httpx.Client:
    """A client that uses the proxy variables, and trusts the machine's certificates too."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    repository = os.environ.get("TIDEMARK_MAVEN_REPOSITORY") or CENTRAL
    return httpx.Client(base_url=repository, verify=context, timeout=_TIMEOUT_S, follow_redirects=True)


def _fetch(client: httpx.Client, jar: Jar, to: Path, attempts: int) -> None:
    """Download one jar and compare it with its pin. An unreachable repository is not tried again."""
    for attempt in range(1, attempts + 1):
        digest = hashlib.sha256()
        try:
            with client.stream("GET", jar.path) as answer, to.open("wb") as file:
                answer.raise_for_status()
                for part in answer.iter_bytes():
                    digest.update(part)
                    file.write(part)
            break
        except httpx.HTTPError as error:
            if attempt == attempts or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                raise
    if digest.hexdigest() != jar.sha256:
        raise JarsMissing(
            f"{jar.coordinate} is not the pinned file: SHA-256 {digest.hexdigest()}, expected {jar.sha256}",
            hint="the repository or a proxy on the way serves another file; "
            "set TIDEMARK_MAVEN_REPOSITORY to one you trust",
        )


def _why(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return "not found" if status == 404 else f"the Maven repository answers {status}"
    return f"the Maven repository does not answer ({type(error).__name__}: {error})"
