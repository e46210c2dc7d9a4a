"""Java's class data sharing: an archive of the classes of Spark that a start loads, by which it loads them faster.

Where there is no archive, or Java finds that it does not fit, Java loads the classes as ever and says nothing.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tidemark.platform.jvm.java import Java

_KEPT = 3
"""Archives of this many environments; each is 200 MB."""
_LONGEST_S = 300.0


def archive_path(java: Java, folder: Path) -> Path | None:
    """The archive of this Java and the jars of the installed pyspark; None where pyspark has no jars."""
    pyspark = find_spec("pyspark")
    places = pyspark.submodule_search_locations if pyspark is not None else None
    jars = [jar for place in places or () for jar in sorted(Path(place, "jars").glob("*.jar"))]
    if not jars:
        return None
    # What Java itself compares when it opens an archive.
    parts = [f"{java.home} {java.version}", *(f"{j} {j.stat().st_size} {j.stat().st_mtime_ns}" for j in jars)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return folder / f"classes-{key}.jsa"


def archive_options(java: Java, folder: Path) -> str:
    """JVM options that use the archive, quoted for Spark; none where there is no archive yet."""
    archive = archive_path(java, folder)
    if archive is None or not archive.is_file():
        return ""
    # A `SPARK_CONF_DIR` is another class path: Java would warn on stdout that the archive does not fit.
    return f"{shlex.quote(f'-XX:SharedArchiveFile={archive}')} -Xlog:cds=off -Xlog:cds+dynamic=off"


def create_archive(java: Java, folder: Path) -> Path | None:
    """Write the archive where there is none: one run of Spark in a process of its own, half a minute. None where it
    could not be written, which costs no more than time at each start.
    """
    archive = archive_path(java, folder)
    if archive is None or archive.is_file():
        return archive
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            written = Path(place) / archive.name
            command = [sys.executable, "-m", "tidemark.platform.class_training", str(written)]
            subprocess.run(
                command, timeout=_LONGEST_S, check=True, stdin=subprocess.DEVNULL, capture_output=True
            )
            os.replace(written, archive)
    except (OSError, subprocess.SubprocessError):
        return None
    for old in sorted(folder.glob("classes-*.jsa"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return archive
