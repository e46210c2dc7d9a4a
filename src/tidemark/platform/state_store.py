"""State stores of stateful queries: RocksDB, which spills to disk within a bound of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.platform.session import on_databricks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "spark.sql.streaming.stateStore"
_OPEN_SOURCE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DATABRICKS = "com.databricks.sql.streaming.state.RocksDBStateStoreProvider"


def use_rocksdb(spark: SparkSession) -> None:
    """Use RocksDB for the queries that this session starts from now on; each checkpoint records it.

    Commits upload changes, not the whole store, and all stores of an executor share one bounded cache
    (`spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB`, 500 by default).
    """
    spark.conf.set(f"{_PREFIX}.providerClass", _DATABRICKS if on_databricks() else _OPEN_SOURCE)
    spark.conf.set(f"{_PREFIX}.rocksdb.changelogCheckpointing.enabled", "true")
    spark.conf.set(f"{_PREFIX}.rocksdb.boundedMemoryUsage", "true")
