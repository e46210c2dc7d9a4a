"""The Spark session: the cluster's own on Databricks, a remote one over Connect, or a local one."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import shlex
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemark.platform import worker_daemon
from tidemark.platform.jvm.class_archive import archive_options
from tidemark.platform.jvm.collector import collector_option
from tidemark.platform.jvm.environment import launch_jvm, temporary_option, user_name
from tidemark.platform.jvm.jars import jar_paths, tidemark_home
from tidemark.platform.jvm.java import find_java
from tidemark.platform.jvm.log_store import log_store_jar
from tidemark.platform.spark_conf import is_cluster, local_conf, spark_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def over_connect(spark: SparkSession) -> bool:
    """Whether Spark runs in a server: batches run in a process of the server then."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def on_databricks(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether Spark runs on Databricks: in this cluster, or at the other end of databricks-connect."""
    return "DATABRICKS_RUNTIME_VERSION" in environ or _has_databricks_connect()


def drives_here(spark: SparkSession) -> bool:
    """Whether this process drives an open-source Spark: its files and its Delta are those of the driver."""
    return not (on_databricks() or over_connect(spark))


def s3_scheme() -> str:
    """The scheme by which this Spark reaches tables on S3."""
    return "s3" if on_databricks() else "s3a"


def get_session(app_name: str = "tidemark") -> SparkSession:
    """The session this process should use, the same one at each call.

    On Databricks the existing one; with `SPARK_REMOTE` set, one over Spark Connect; where databricks-connect is
    installed, as in an app, one on the compute that its variables name; otherwise a driver in this process with
    the pinned jars, on this machine or on the cluster of `TIDEMARK_SPARK_MASTER`.
    """
    _say_analysis_errors_once()
    in_cluster, remote = "DATABRICKS_RUNTIME_VERSION" in os.environ, os.environ.get("SPARK_REMOTE")
    if not in_cluster and not remote:
        if _has_databricks_connect():
            return _over_databricks_connect()
        return local_session(app_name, master=spark_master())
    from pyspark.sql import SparkSession

    _load_delta_exceptions()
    # Without a name, which serverless compute does not accept.
    return SparkSession.builder.getOrCreate()


def local_session(
    app_name: str = "tidemark",
    *,
    master: str = "local[*]",
    s3: Mapping[str, str] | None = None,
    extra_conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session in this process on a suitable Java, with Delta and Kafka; the running one if there is one.

    Sets the process's time zone to UTC, so that a timestamp collected into Python is the one in the table.
    `master` may be a cluster's: only the driver runs here then. `s3`: options `fs.s3a.*`, which also add the S3
    jars and the log store. `extra_conf` overrides any setting; its `spark.driver.extraJavaOptions` are appended.

    Raises:
        JavaNotFound: no Java 17 or 21 here.
        JvmUnfit: no JVM of Spark runs for this user or with its folder for temporary files.
        JarsMissing: the pinned jars are not here and cannot be downloaded.
    """
    from pyspark.sql import SparkSession

    _say_analysis_errors_once()
    # The active session may be a batch's; the builder returns the first one.
    running = SparkSession.builder.getOrCreate() if SparkSession.getActiveSession() is not None else None
    if running is None:
        user_name()
        os.environ["JAVA_HOME"] = str(find_java().home)
        if not is_cluster(master):
            # Otherwise Spark looks the host's name up and warns about the result.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Executors need the driver's Python, not the `python3` on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["TZ"] = "UTC"
    time.tzset()
    jars = jar_paths("spark", *(() if s3 is None else ("s3",)))
    if s3 is not None:
        jars.append(log_store_jar(jars, folder=tidemark_home() / "jars"))
    conf = local_conf(jars, s3=s3, master=master)
    conf["spark.driver.extraJavaOptions"] += f" {shlex.quote(temporary_option())}"
    if running is None:
        conf["spark.driver.extraJavaOptions"] += f" {archive_options(find_java(), tidemark_home())}"
    for name, value in (extra_conf or {}).items():
        joined = name == "spark.driver.extraJavaOptions"
        conf[name] = f"{conf[name]} {value}" if joined else value
    if running is None:
        if not is_cluster(master):
            collector = collector_option(conf["spark.driver.extraJavaOptions"], cores=os.cpu_count() or 2)
            conf["spark.driver.extraJavaOptions"] += f" {collector}"
        launch_jvm({**conf, "spark.master": master})
        conf = worker_daemon.settings(master) | conf
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = running or builder.getOrCreate()
    _load_delta_exceptions()
    return session


def _has_databricks_connect() -> bool:
    try:
        return importlib.util.find_spec("databricks.connect") is not None
    except ModuleNotFoundError:
        return False


def _over_databricks_connect() -> SparkSession:
    connect = importlib.import_module("databricks.connect")
    session: SparkSession = connect.DatabricksSession.builder.getOrCreate()
    return session


def _load_delta_exceptions() -> None:
    # As a side effect, this import makes Delta convert JVM exceptions into Python ones.
    with contextlib.suppress(ImportError):
        import delta.exceptions  # noqa: F401


def _say_analysis_errors_once() -> None:
    """PySpark logs an analysis error of SQL, with nine kilobytes of the JVM's trace, before it raises it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
