"""The settings of a local Spark session, as plain values, without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from tidemark.platform.jvm.log_store import CONF as LOG_STORE

MASTER_VARIABLE = "TIDEMARK_SPARK_MASTER"

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


AVRO_LIMITS = tuple(
    f"-Dorg.apache.avro.limits.{kind}.maxLength={16 * 1024 * 1024}"
    for kind in ("string", "bytes", "collectionItems")
)
"""JVM options of driver and executors. Without them Avro's reader allocates any length that a malformed record
claims, and one record kills the process instead of being rejected."""

LAST_COMPILER_LATER = tuple(
    f"-XX:Tier4{what}Threshold={4 * default}"
    for what, default in (
        ("Invocation", 5_000),
        ("MinInvocation", 600),
        ("Compile", 15_000),
        ("BackEdge", 40_000),
    )
)
"""JVM options of the driver: four times Java's own thresholds of its costly last compiler, which took a third of a
start's CPU, and of a small batch's, for code of Spark that runs a few times. What runs per record passes them at once.
"""

_JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_SPARK_FILES = ("spark-defaults.conf", "spark-env.sh", "java-opts")
_NAMES_A_COLLECTOR = re.compile(
    r"-XX:\+Use\w+GC\b|-XX:(Flags|VMOptionsFile)=|(?<![^\s'\"])@|--properties-file\b"
)
"""Or a file, which may."""
_SIZES_NEW_OBJECTS = re.compile(r"-Xmn|-XX:(Max)?New(Size|Ratio)=")
_CORES_OF_ONE_COLLECTOR = 2

_OF_ONE_MACHINE = (
    *("spark.driver.host", "spark.driver.bindAddress", "spark.ui.enabled", "spark.sql.ui.explainMode"),
    *("spark.default.parallelism", "spark.sql.shuffle.partitions"),
    "spark.sql.sources.parallelPartitionDiscovery.parallelism",
)
"""Not set on a cluster: its `spark-defaults.conf` and Spark's own defaults apply there."""


def spark_master(environ: Mapping[str, str] = os.environ) -> str:
    """`TIDEMARK_SPARK_MASTER`, such as `spark://host:7077`; else all cores of this machine."""
    return environ.get(MASTER_VARIABLE) or "local[*]"


def is_cluster(master: str) -> bool:
    """Whether tasks run in other processes than the driver's."""
    return not master.startswith("local") or master.startswith("local-cluster")


def collector_option(options: str, *, cores: int, environ: Mapping[str, str] = os.environ) -> str:
    """The JVM option of a small machine's garbage collector; none on more cores, and where `options`, the
    environment or Spark's own files name one, as Java refuses to start with two.

    Java's own choice from two cores on, G1, takes twice the heap of the serial one for the same stream. This one stops
    all tasks while it collects: with less room for new objects than 256 MB, a twentieth of the time.
    """
    variables = (environ.get(name, "") for name in (*_JAVA_VARIABLES, "PYSPARK_SUBMIT_ARGS"))
    given = " ".join([options, *variables, *_spark_files(environ)])
    if cores > _CORES_OF_ONE_COLLECTOR or _NAMES_A_COLLECTOR.search(given):
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


def local_conf(
    jars: Iterable[Path],
    *,
    s3: Mapping[str, str] | None = None,
    master: str = "local[*]",
    environ: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Settings for one driver: Delta, UTC; on one machine as many shuffle partitions as cores.

    On a cluster executors get the JVM options that decoding needs, and Spark ships the jars. `s3`: `fs.s3a.*`
    options as Hadoop names them. Driver memory is `TIDEMARK_DRIVER_MEMORY`, 2 GB by default.
    """
    cores = str(os.cpu_count() or 2)
    log4j = Path(str(resources.files("tidemark.platform").joinpath("log4j2.properties")))
    conf = {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.driver.memory": environ.get("TIDEMARK_DRIVER_MEMORY") or "2g",
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Duser.timezone=UTC -Dlog4j2.configurationFile={log4j.as_uri()}",
                *AVRO_LIMITS,
                *LAST_COMPILER_LATER,
            ]
        ),
        # A laptop's own host name often does not resolve.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Each execution writes its plan for the disabled UI; the long form costs a twelfth of a small batch.
        "spark.sql.ui.explainMode": "simple",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": cores,
        "spark.sql.shuffle.partitions": cores,
        # VACUUM lists a table's folders in this many tasks; the default of 10,000 takes a minute here.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": cores,
        "spark.sql.session.timeZone": "UTC",
        # Each Column would record the Python and the Java stack of its creation: half of the driver's Python
        # time at a start, for messages about this program's own code.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        # Without a bound, `query.stop()` waits forever for a batch that hangs.
        "spark.sql.streaming.stopTimeout": "60s",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    if s3 is not None:
        conf["spark.hadoop.fs.s3a.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
        conf |= LOG_STORE
        conf |= {f"spark.hadoop.{name}": value for name, value in s3.items()}
    if is_cluster(master):
        conf["spark.executor.extraJavaOptions"] = " ".join(["-Duser.timezone=UTC", *AVRO_LIMITS])
        conf = {name: value for name, value in conf.items() if name not in _OF_ONE_MACHINE}
    return conf
