"""The built-in report types, over landed tables, on Spark.

Deterministic: rows are sorted by all that identifies them, sums are decimal, and no clock is read.
"""

from __future__ import annotations

from datetime import date
from typing import Any, NoReturn

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.contract.errors import UsageError
from tidemark.contract.records import OFFSET, PARTITION, TOPIC_ID
from tidemark.reports.archive.archive import Report
from tidemark.reports.requests.request import ReportRequest
from tidemark.reports.strategy import ReportContext, StrategyRegistry

DECIMAL = "DECIMAL(38,6)"
MAX_ROWS = 100_000
"""People read a report: a request for more rows is refused."""


class _OfOneTable:
    def tables(self, request: ReportRequest, context: ReportContext) -> tuple[str, ...]:
        return (context.table(request),)


class Performance(_OfOneTable):
    """PERFORMANCE: per account the number, sum, mean, lowest and highest of the source's value column.

    Parameters: `accountIds` (all if absent), `from` and `to` (ISO dates, both inclusive), `source`.
    """

    report_type = "PERFORMANCE"

    def make(self, request: ReportRequest, context: ReportContext) -> Report:
        source = context.source(request)
        landed = _within(context.read(context.table(request)), source.at, request)
        accounts = _accounts(request)
        chosen = landed if accounts is None else landed.where(F.col(source.account).isin(accounts))
        value = F.col(source.value).cast(DECIMAL)
        per_account = (
            chosen.groupBy(F.col(source.account).cast("STRING").alias("account"))
            .agg(
                F.count(F.lit(1)).alias("records"),
                F.sum(value).cast(DECIMAL).alias("total"),
                F.avg(value).cast(DECIMAL).alias("mean"),
                F.min(value).alias("lowest"),
                F.max(value).alias("highest"),
            )
            .orderBy("account")
        )
        rows = _collected(per_account)
        return Report(
            rows,
            {
                "accounts": rows.num_rows,
                "records": sum(rows.column("records").to_pylist()),
                "missing": sorted(set(accounts or ()).difference(rows.column("account").to_pylist())),
            },
        )


class Volume(_OfOneTable):
    """VOLUME: records landed per day. Parameters: `from`, `to`, `source`."""

    report_type = "VOLUME"

    def make(self, request: ReportRequest, context: ReportContext) -> Report:
        source = context.source(request)
        landed = _within(context.read(context.table(request)), source.at, request)
        per_day = (
            landed.groupBy(F.to_date(source.at).alias("day"))
            .agg(F.count(F.lit(1)).alias("records"), F.count_distinct(source.account).alias("accounts"))
            .orderBy("day")
        )
        rows = _collected(per_day)
        return Report(rows, {"days": rows.num_rows, "records": sum(rows.column("records").to_pylist())})


class Completeness(_OfOneTable):
    """COMPLETENESS: per topic and partition the first and last offset landed, and how many are absent.

    An absent offset was rejected, skipped or is a hole in Kafka; the DLQ table has the rejected ones.
    Parameters: `source`.
    """

    report_type = "COMPLETENESS"

    def make(self, request: ReportRequest, context: ReportContext) -> Report:
        landed = context.read(context.table(request))
        span = F.max(OFFSET) - F.min(OFFSET) + 1
        per_partition = (
            landed.groupBy(F.col(TOPIC_ID).alias("topic_id"), F.col(PARTITION).alias("partition"))
            .agg(
                F.count(F.lit(1)).alias("records"),
                F.min(OFFSET).alias("first_offset"),
                F.max(OFFSET).alias("last_offset"),
                (span - F.count_distinct(OFFSET)).alias("absent"),
                (F.count(F.lit(1)) - F.count_distinct(OFFSET)).alias("doubled"),
            )
            .orderBy("topic_id", "partition")
        )
        rows = _collected(per_partition)
        totals = {name: sum(rows.column(name).to_pylist()) for name in ("records", "absent", "doubled")}
        return Report(rows, {"partitions": rows.num_rows, **totals})


def with_landed_strategies(registry: StrategyRegistry) -> StrategyRegistry:
    return registry.register(Performance(), Volume(), Completeness())


def _within(landed: DataFrame, at: str, request: ReportRequest) -> DataFrame:
    first, last = _day(request, "from"), _day(request, "to")
    if first is not None and last is not None and first > last:
        raise UsageError(f"`from` ({first}) is after `to` ({last})")
    chosen = landed if first is None else landed.where(F.to_date(at) >= F.lit(first))
    return chosen if last is None else chosen.where(F.to_date(at) <= F.lit(last))


def _day(request: ReportRequest, name: str) -> date | None:
    text = request.parameters.get(name)
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        _wrong(name, text, "an ISO date such as 2024-01-31")


def _accounts(request: ReportRequest) -> list[str] | None:
    accounts = request.parameters.get("accountIds")
    if accounts is None:
        return None
    if not isinstance(accounts, list) or not all(isinstance(a, str) for a in accounts):
        _wrong("accountIds", accounts, "a list of texts")
    return sorted(set(accounts))


def _wrong(name: str, found: object, expected: str) -> NoReturn:
    raise UsageError(f"the parameter `{name}` is {found!r}", hint=f"it must be {expected}")


def _collected(rows: DataFrame) -> Any:
    collected = rows.limit(MAX_ROWS + 1).toArrow()
    if collected.num_rows > MAX_ROWS:
        raise UsageError(
            f"the report would have more than {MAX_ROWS} rows", hint="narrow `accountIds`, `from` or `to`"
        )
    return collected
