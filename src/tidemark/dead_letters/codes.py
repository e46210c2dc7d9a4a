"""How many records were rejected, and why."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.routes import Route


def code_counts(routed: DataFrame) -> dict[str, int]:
    """How many rejected rows of `routed` there are per failure code. In: `route` and `failure`."""
    rejected = routed.where(F.col(records.ROUTE) == Route.REJECTED.value)
    counted = rejected.groupBy(F.col(f"{records.FAILURE}.code").alias("code")).count().collect()
    return {row["code"]: row["count"] for row in counted}
