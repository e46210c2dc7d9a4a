"""The log store that makes commits on S3 conditional, compiled once by the compiler that pyspark ships.

With Delta's default one for S3, two drivers can overwrite each other's commit. This one is a small Java class in
this folder. Janino, which Spark itself uses, compiles it, so that no JDK is needed and the sources have no binary.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from tidemark.contract.errors import TidemarkError
from tidemark.platform.jvm.java import find_java

CLASS = "tidemark.platform.ConditionalLogStore"
CONF = {f"spark.delta.logStore.{scheme}.impl": CLASS for scheme in ("s3", "s3a", "s3n")}
"""Spark settings by which every commit on S3 goes through it."""


def log_store_jar(jars: Iterable[Path], *, folder: Path) -> Path:
    """A jar with the log store in `folder`, compiled against `jars` unless it exists.

    Several processes may call this at once: each compiles in a folder of its own and renames.

    Raises:
        TidemarkError: it does not compile, for example with another version of pyspark than the pinned one.
    """
    source = resources.files("tidemark.platform.jvm").joinpath("ConditionalLogStore.java").read_bytes()
    against = [*jars, *_of_pyspark("hadoop-client-api", "hadoop-client-runtime")]
    names = "\n".join(sorted(path.name for path in against)).encode()
    jar = folder / f"tidemark-log-store-{hashlib.sha256(source + names).hexdigest()[:12]}.jar"
    if not jar.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".incoming-log-store-") as aside:
            _compile(source, against, Path(aside)).replace(jar)
    return jar


def _compile(source: bytes, against: list[Path], aside: Path) -> Path:
    (aside / "ConditionalLogStore.java").write_bytes(source)
    compiler = os.pathsep.join(str(path) for path in _of_pyspark("janino", "commons-compiler"))
    done = subprocess.run(
        [
            str(find_java().executable),
            *("-cp", compiler, "org.codehaus.commons.compiler.samples.CompilerDemo"),
            *("-d", str(aside), "-classpath", os.pathsep.join(str(path) for path in against)),
            str(aside / "ConditionalLogStore.java"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    classes = sorted(aside.rglob("*.class"))
    if done.returncode or not classes:
        raise TidemarkError(
            f"the log store for S3 did not compile: {(done.stderr or done.stdout).strip()[-500:]}",
            hint="run `make install`: it brings the pyspark that the pinned jars belong to",
        )
    packed = aside / "packed.jar"
    with zipfile.ZipFile(packed, "w") as archive:
        for found in classes:
            archive.write(found, found.relative_to(aside).as_posix())
    return packed


def _of_pyspark(*names: str) -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    locations = (spec.submodule_search_locations if spec else None) or []
    return [
        jar
        for name in names
        for place in locations
        for jar in sorted(Path(place).glob(f"jars/{name}-[0-9]*"))
    ]
