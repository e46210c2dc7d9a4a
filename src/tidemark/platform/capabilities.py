"""Features that a session's server or client may lack; each is checked once in a process, and has a fallback.

Spark before 4.2 and serverless compute lack some of them. A batch over Spark Connect runs in another process
with its own client, which checks for itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)

_SETTING = "spark.databricks.delta.commitInfo.userMetadata"
_NOT_AVAILABLE = "CONFIG_NOT_AVAILABLE"
_answers: dict[str, bool] = {}


def observes_smallest(spark: SparkSession) -> bool:
    """Whether `min_by` returns several values, as in Spark 4.2 and in Databricks Connect from 18.2 on.

    Otherwise a batch's rejected records are counted in its one pass and read in a second one.
    """
    from pyspark.sql import functions as F

    if "k" not in inspect.signature(F.min_by).parameters:
        return False
    return _asked("min_by of several", lambda: spark.range(1).select(F.min_by("id", "id", 1)).schema)


def keeps_rows(spark: SparkSession) -> bool:
    """Whether the server can keep rows (`localCheckpoint`). Otherwise they are computed again at each read, from
    fixed versions of tables (`sink.table_log.as_of_now`).
    """
    return _asked("localCheckpoint", lambda: spark.range(0).localCheckpoint(eager=False))


def takes_settings(spark: SparkSession) -> bool:
    """Whether the session accepts Delta's and Spark's settings, which MERGE needs for its transaction and
    stateful queries for their state store.
    """

    def set_and_unset() -> None:
        spark.conf.set(_SETTING, "")
        spark.conf.unset(_SETTING)

    return _asked("session settings", set_and_unset)


def setting(spark: SparkSession, name: str) -> str | None:
    """The session's setting, or None where it is not set or not visible."""
    from pyspark.errors import PySparkException

    try:
        return spark.conf.get(name, None)
    except PySparkException as error:
        if _NOT_AVAILABLE in str(error):
            return None
        raise


def _asked(what: str, ask: Callable[[], object]) -> bool:
    from pyspark.errors import PySparkException

    if what not in _answers:
        try:
            ask()
            _answers[what] = True
        except PySparkException as error:
            _answers[what] = False
            log.info("this Spark lacks a feature; using the fallback", feature=what, error=str(error)[:200])
    return _answers[what]
