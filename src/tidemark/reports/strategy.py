"""Report strategies, and the registry that finds them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tidemark.config.destination import TableRef
from tidemark.config.reports import ReportSource
from tidemark.contract.errors import ConfigError, UsageError
from tidemark.reports.archive.archive import Report
from tidemark.reports.requests.request import ReportRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP = "tidemark.report_strategies"


@dataclass
class ReportContext:
    """The environment of a strategy. Spark is started when it is first used.

    `inputs` holds the version at which each table is read, so that every attempt reads the same.
    `ended` is set when the request was cancelled or taken over: the report is discarded then.
    """

    sources: Mapping[str, ReportSource]
    open_spark: Callable[[], SparkSession]
    correlation_id: str
    inputs: Mapping[str, int] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    @cached_property
    def spark(self) -> SparkSession:
        return self.open_spark()

    def source(self, request: ReportRequest) -> ReportSource:
        """The source that the request names; the only one if it names none."""
        name = request.parameters.get("source")
        if name is None and len(self.sources) == 1:
            name = next(iter(self.sources))
        if not isinstance(name, str) or name not in self.sources:
            known = ", ".join(sorted(self.sources)) or "none"
            raise UsageError(
                f"the parameter `source` names no configured table: {name}", hint=f"known: {known}"
            )
        return self.sources[name]

    def table(self, request: ReportRequest) -> str:
        """The landed table of the request's source."""
        table = self.source(request).table
        if table is None:
            raise UsageError("the request's source has no table", hint="see `reports.sources`")
        return table

    def latest_version(self, table: str) -> int:
        newest = self.spark.sql(f"DESCRIBE HISTORY {sql_name(table)} LIMIT 1").first()
        if newest is None:
            raise UsageError(f"the table {table} has no history", hint="is it a Delta table?")
        return int(newest["version"])

    def read(self, table: str) -> DataFrame:
        """The table as it was when the request was first claimed."""
        return self.spark.sql(f"SELECT * FROM {sql_name(table)} VERSION AS OF {int(self.inputs[table])}")


def sql_name(table: str) -> str:
    """A path or a catalog name, quoted for Spark SQL."""
    return (TableRef(path=table) if "/" in table else TableRef(name=table)).sql


@runtime_checkable
class ReportStrategy(Protocol):
    """Makes reports of one type. Must be deterministic: a second run over the same inputs, the same bytes.

    Raise `RetriableError` if another attempt may succeed; any other exception gives the request up
    after the retries, `NonRetriableError` and `UsageError` at once.
    """

    report_type: str

    def tables(self, request: ReportRequest, context: ReportContext) -> tuple[str, ...]:
        """Delta tables that will be read. Their versions are pinned before `make` is called."""
        ...

    def make(self, request: ReportRequest, context: ReportContext) -> Report: ...


class StrategyRegistry(dict[str, ReportStrategy]):
    """Strategies by report type. Two strategies of one type are an error."""

    def register(self, *strategies: ReportStrategy) -> StrategyRegistry:
        for strategy in strategies:
            if strategy.report_type in self:
                raise ConfigError(f"two strategies make reports of type {strategy.report_type}")
            self[strategy.report_type] = strategy
        return self

    def load_entry_points(self) -> StrategyRegistry:
        """Adds those that installed packages offer under `tidemark.report_strategies`."""
        for found in entry_points(group=GROUP):
            made: Any = found.load()
            strategy = made() if isinstance(made, type) else made
            if not isinstance(strategy, ReportStrategy):
                raise ConfigError(
                    f"the entry point {found.name} of {GROUP} is not a report strategy", hint=found.value
                )
            self.register(strategy)
        return self
