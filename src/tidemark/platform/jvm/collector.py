"""Java's garbage collector on a small machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

_JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_SPARK_FILES = ("spark-defaults.conf", "spark-env.sh", "java-opts")
_NAMES_A_COLLECTOR = re.compile(
    r"-XX:\+Use\w+GC\b|-XX:(Flags|VMOptionsFile)=|(?<![^\s'\"])@|--properties-file\b"
)
"""Or a file, which may."""
_SIZES_NEW_OBJECTS = re.compile(r"-Xmn|-XX:(Max)?New(Size|Ratio)=")
_CORES_OF_ONE_COLLECTOR = 2


def collector_option(options: str, *, cores: int, environ: Mapping[str, str] = os.environ) -> str:
    """The JVM option of a small machine's garbage collector; none on more cores, and where `options`, the
    environment or Spark's own files name one, as Java refuses to start with two.

    Java's own choice from two cores on, G1, takes twice the heap of the serial one for the same stream. This one stops
    all tasks while it collects: with less room for new objects than 256 MB, a twentieth of the time.
    """
    if cores > _CORES_OF_ONE_COLLECTOR:
        return ""
    variables = (environ.get(name, "") for name in (*_JAVA_VARIABLES, "PYSPARK_SUBMIT_ARGS"))
    given = " ".join([options, *variables, *_spark_files(environ)])
    if _NAMES_A_COLLECTOR.search(given):
        return ""
    # The last of two sizes counts, and that would be this one.
    return "-XX:+UseSerialGC" if _SIZES_NEW_OBJECTS.search(given) else "-XX:+UseSerialGC -Xmn256m"


def _spark_files(environ: Mapping[str, str]) -> Iterator[str]:
    """The lines of the files from which `spark-submit` adds Java options to those that it is given."""
    pyspark = find_spec("pyspark")
    homes = [environ.get("SPARK_HOME"), *((pyspark and pyspark.submodule_search_locations) or ())]
    folder = environ.get("SPARK_CONF_DIR") or next((f"{home}/conf" for home in homes if home), "")
    for name in _SPARK_FILES:
        with suppress(OSError):
            lines = Path(folder, name).read_text(encoding="utf-8", errors="replace").splitlines()
            yield from (line for line in lines if not line.lstrip().startswith("#"))
