"""The session for a configuration: the cluster's own, or a local one with its S3 settings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import structlog

from tidemark.config.settings import Settings
from tidemark.platform.files import ArrowFiles
from tidemark.platform.session import get_session, local_session, on_databricks
from tidemark.platform.spark_conf import is_cluster, spark_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)


def session_for(settings: Settings) -> SparkSession:
    """The Spark session for this configuration; S3 jars only where a table or checkpoint lies on S3."""
    if on_databricks() or os.environ.get("SPARK_REMOTE"):
        return get_session(settings.application_name)
    tables = [t for name in settings.streams for t in settings.tables(name).values()]
    places = [str(table) for table in tables]
    master = spark_master()
    if is_cluster(master) and (folders := sorted(str(t) for t in tables if t.is_local)):
        log.warning("every worker must see these folders under the same path", folders=folders)
    uses_s3 = any(place.startswith("s3a://") for place in [*places, settings.checkpoint_root])
    return local_session(
        settings.application_name,
        master=master,
        s3=s3_options(settings) if uses_s3 else None,
        # Read by log4j2.properties before the first line of Spark.
        extra_conf={
            "spark.driver.extraJavaOptions": f"-Dtidemark.spark.level={settings.logging.spark_level.lower()}"
        },
    )


_S3_BOUNDS = {
    "fs.s3a.connection.establish.timeout": "15s",
    "fs.s3a.connection.timeout": "60s",
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.retry.limit": "3",
    "fs.s3a.retry.throttle.limit": "5",
}
"""With its defaults S3A waits almost an hour for a silent server, and minutes for a throttling one, before a
batch's retries, its breaker and `on-exhausted` see the failure."""


def s3_options(settings: Settings) -> dict[str, str]:
    """Options `fs.s3a.*`. Holds secrets: never log it."""
    s3 = settings.s3
    options = {
        "fs.s3a.endpoint.region": s3.region,
        "fs.s3a.path.style.access": str(s3.path_style).lower(),
        **_S3_BOUNDS,
    }
    if s3.endpoint:
        options["fs.s3a.endpoint"] = s3.endpoint
        options["fs.s3a.connection.ssl.enabled"] = str(s3.endpoint.startswith("https")).lower()
    if s3.access_key_id and s3.secret_access_key:
        options["fs.s3a.access.key"] = s3.access_key_id.get_secret_value()
        options["fs.s3a.secret.key"] = s3.secret_access_key.get_secret_value()
    if s3.session_token:
        options["fs.s3a.session.token"] = s3.session_token.get_secret_value()
    return options


def s3_files(settings: Settings) -> ArrowFiles:
    """Files at `s3a://` locations with the configured access, without Spark."""
    from pyarrow.fs import S3FileSystem

    s3 = settings.s3
    secrets = {
        "access_key": s3.access_key_id,
        "secret_key": s3.secret_access_key,
        "session_token": s3.session_token,
    }
    known = {name: secret.get_secret_value() for name, secret in secrets.items() if secret}
    scheme, _, host = (s3.endpoint or "").rpartition("://")
    where = {"endpoint_override": host, "scheme": scheme or "https"} if host else {}
    filesystem = S3FileSystem(
        region=s3.region,
        force_virtual_addressing=bool(s3.endpoint) and not s3.path_style,
        connect_timeout=15,
        request_timeout=60,
        **known,
        **where,
    )
    return ArrowFiles(filesystem)
