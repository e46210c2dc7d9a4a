"""Downloads artifacts with the Ivy among pyspark's jars, so that no Maven is needed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from tidemark.contract.errors import TidemarkError
from tidemark.platform.jvm.java import find_java


@dataclass(frozen=True)
class Artifact:
    organisation: str
    name: str
    version: str

    @classmethod
    def parse(cls, coordinate: str) -> Self:
        """From `organisation:name:version`."""
        organisation, name, version = coordinate.split(":")
        return cls(organisation, name, version)

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


class IvyFailure(Exception):
    """`unreachable`: the repository's host does not answer, so a retry does not help."""

    def __init__(self, message: str, *, unreachable: bool) -> None:
        super().__init__(message)
        self.unreachable = unreachable


def download(sizes: Mapping[Artifact, int], folder: Path) -> dict[Artifact, Path]:
    """Download each artifact's jar into `folder`; files of an earlier attempt are used again.

    Raises:
        IvyFailure: an artifact could not be downloaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.xml").write_text(_settings(folder))
    (folder / "ivy.xml").write_text(_module(sizes))
    command = [
        str(find_java().executable),
        *_proxy_options(os.environ),
        # Otherwise it needs a home, which Java does not find for every user.
        f"-Divy.default.ivy.user.dir={folder / 'ivy'}",
        *(
            "-jar",
            str(_ivy_jar()),
            "-settings",
            str(folder / "settings.xml"),
            "-ivy",
            str(folder / "ivy.xml"),
        ),
        *("-retrieve", f"{folder}/[organisation]@[artifact]@[revision].[ext]"),
    ]
    output_lines = _run(command, sizes)
    paths = {a: folder / f"{a.organisation}@{a.name}@{a.version}.jar" for a in sizes}
    if lacking := [str(a) for a, path in paths.items() if not path.is_file()]:
        words = (
            "UnknownHost",
            "ConnectException",
            "NoRouteToHost",
            "Host not found",
            "timed out",
            "SSLHandshake",
        )
        unreachable = next((line for line in output_lines if any(word in line for word in words)), None)
        reason = (
            f"the Maven repository does not answer ({unreachable.strip()})" if unreachable else "not found"
        )
        raise IvyFailure(f"{', '.join(lacking[:5])}: {reason}", unreachable=unreachable is not None)
    return paths


def _run(command: list[str], sizes: Mapping[Artifact, int]) -> list[str]:
    """Run Ivy with a progress bar; returns its output lines."""
    output_lines: list[str] = []
    by_ivy_name = {f"{a.organisation}#{a.name};{a.version}!": size for a, size in sizes.items()}
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with (
        progress,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as ivy,
    ):
        task = progress.add_task(f"Downloading {len(sizes)} jars, once", total=sum(sizes.values()))
        assert ivy.stdout is not None
        for line in ivy.stdout:
            output_lines.append(line)
            if "[SUCCESSFUL ]" in line:
                progress.advance(task, next((size for name, size in by_ivy_name.items() if name in line), 0))
    return output_lines


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    locations = (spec.submodule_search_locations if spec else None) or []
    for location in locations:
        for jar in Path(location).glob("jars/ivy-*.jar"):
            return jar
    raise TidemarkError(
        "pyspark is not installed here, or comes without its jars",
        hint="run `make install`, or install pyspark 4.2.0 (not pyspark-client)",
    )


def _settings(folder: Path) -> str:
    # Without POM and checksum files: the list is complete and each jar has its own pin.
    mirror = os.environ.get("TIDEMARK_MAVEN_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><property name="ivy.checksums" value=""/><settings defaultResolver="maven"/>'
        f"<caches defaultCacheDir={quoteattr(str(folder / 'cache'))}/>"
        f'<resolvers><ibiblio name="maven" m2compatible="true" usepoms="false"{root}/></resolvers>'
        "</ivysettings>"
    )


def _module(artifacts: Mapping[Artifact, int]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(a.organisation)} name={quoteattr(a.name)} rev={quoteattr(a.version)}"
        ' transitive="false" conf="default->default">'
        f'<artifact name={quoteattr(a.name)} type="jar" ext="jar"/></dependency>'
        for a in artifacts
    )
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Java does not read the usual proxy variables."""
    proxy = urlsplit(environ.get("HTTPS_PROXY") or environ.get("https_proxy") or "")
    if not proxy.hostname:
        return []
    options = [f"-Dhttps.proxyHost={proxy.hostname}"]
    return [*options, f"-Dhttps.proxyPort={proxy.port}"] if proxy.port else options
