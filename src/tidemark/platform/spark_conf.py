"""The settings of a local Spark session, as plain values, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

from tidemark.platform.jvm.log_store import CONF as LOG_STORE

MASTER_VARIABLE = "TIDEMARK_SPARK_MASTER"

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


AVRO_LIMITS = tuple(
    f"-Dorg.apache.avro.limits.{kind}.maxLength={16 * 1024 * 1024}"
    for kind in ("string", "bytes", "collectionItems")
)
"""JVM options of driver and executors, for an expression of the configuration that calls `from_avro`: without them
Avro's reader in Java allocates any length that a malformed value claims, and one value kills the process."""

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
        # Its two commits, which only say that it ran, would take no lock on a local disk, and deleting takes long.
        "spark.databricks.delta.vacuum.logging.enabled": "false",
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
