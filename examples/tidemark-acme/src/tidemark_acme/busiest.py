"""BUSIEST: the accounts with the most records of a landed table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

from tidemark.contract.errors import UsageError
from tidemark.reports.archive.archive import Report
from tidemark.reports.requests.request import ReportRequest
from tidemark.reports.strategy import ReportContext

MOST = 1000


class Busiest:
    """Parameters: `source`, and `top`, how many accounts (10 by default, 1000 at most)."""

    report_type = "BUSIEST"

    def tables(self, request: ReportRequest, context: ReportContext) -> tuple[str, ...]:
        return (context.table(request),)

    def make(self, request: ReportRequest, context: ReportContext) -> Report:
        top = _top(request.parameters.get("top", 10))
        source = context.source(request)
        landed = context.read(context.table(request))
        busiest = (
            landed.groupBy(F.col(source.account).cast("STRING").alias("account"))
            .agg(F.count(F.lit(1)).alias("records"))
            # The account too, so that a second run gives the same rows in the same order.
            .orderBy(F.desc("records"), "account")
            .limit(top)
            .toArrow()
        )
        return Report(busiest, {"accounts": busiest.num_rows})


def _top(asked: Any) -> int:
    if not isinstance(asked, int) or not 1 <= asked <= MOST:
        raise UsageError(f"the parameter `top` must be a number from 1 to {MOST}, is {asked!r}")
    return asked
