"""Counts rejected records by failure code."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.routes import Route


def code_counts(routed: DataFrame) -> dict[str, int]:
    """The number of rejected rows of `routed` by failure code. In: `route` and `failure`."""
    rejected = routed.where(F.col(records.ROUTE) == Route.REJECTED.value)
    counted = rejected.groupBy(F.col(f"{records.FAILURE}.code").alias("code")).count().collect()
    return {row["code"]: row["count"] for row in counted}
