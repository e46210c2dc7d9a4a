"""What the server of a session, or its client, may lack; each is asked once a process, and has another way.

Spark before 4.2 and its clients lack some of it by age, serverless compute by decision. The one that runs
a batch over Spark Connect is another process, with a client of its own: it asks for itself.
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
    """Whether `min_by` gives several values, as Spark 4.2 has it and Databricks Connect from 18.2 on.

    Otherwise a batch's rejected records are counted in its one pass, and read in a second one.
    """
    from pyspark.sql import functions as F

    if "k" not in inspect.signature(F.min_by).parameters:
        return False
    return _asked("min_by of several", lambda: spark.range(1).select(F.min_by("id", "id", 1)).schema)


def keeps_rows(spark: SparkSession) -> bool:
    """Whether rows can be kept on the server (`localCheckpoint`). Otherwise they are computed again at each
    read, from versions of tables that are named (`sink.table_log.as_of_now`).
    """
    return _asked("localCheckpoint", lambda: spark.range(0).localCheckpoint(eager=False))


def takes_settings(spark: SparkSession) -> bool:
    """Whether the session takes Delta's and Spark's own settings. MERGE has no other way to a transaction,
    and stateful queries none to their state store.
    """

    def set_and_unset() -> None:
        spark.conf.set(_SETTING, "")
        spark.conf.unset(_SETTING)

    return _asked("session settings", set_and_unset)


def setting(spark: SparkSession, name: str) -> str | None:
    """The session's setting, or None where it has none or shows none."""
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
            log.info(
                "this Spark lacks something; another way is taken",
                lacks=what,
                error=str(error)[:200],
            )
    return _answers[what]
