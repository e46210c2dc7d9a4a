"""The report types over landed Delta tables, on Spark: numbers, pinned versions, third parties' types."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemark.config.reading.load import parse_settings
from tidemark.config.reports import ReportSource
from tidemark.contract.errors import ConfigError, RetriableError, UsageError
from tidemark.dev.broker import EmbeddedBroker
from tidemark.reports.archive.archive import Archive
from tidemark.reports.archive.objects import Folder
from tidemark.reports.from_settings import reports_of
from tidemark.reports.landed import Completeness, Performance, Volume, with_landed_strategies
from tidemark.reports.requests.claims import Claims
from tidemark.reports.requests.request import ReportRequest, Status, check_parameters
from tidemark.reports.run import report_now
from tidemark.reports.strategy import GROUP, ReportContext, StrategyRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.reports.conftest import Workflow

DDL = (
    "account_id STRING, amount DECIMAL(10,2), message_timestamp TIMESTAMP, "
    "stream_topic_id STRING, stream_partition INT, stream_offset BIGINT"
)


def row(account: str | None, amount: str | None, day: int, partition: int, offset: int) -> tuple[Any, ...]:
    return (
        account,
        None if amount is None else Decimal(amount),
        datetime(2024, 1, day),
        "id",
        partition,
        offset,
    )


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six records of three accounts over three days, then one more that version 0 has not got."""
    path = str(tmp_path_factory.mktemp("landed") / "orders")
    landed = [
        row("A1", "10.50", 1, 0, 0),
        row("A1", "-0.50", 2, 0, 1),
        row("A2", "3.00", 2, 0, 4),
        row("A2", None, 3, 1, 7),
        row("A3", "1.00", 3, 1, 8),
        row("A3", "1.00", 3, 1, 8),
    ]
    for rows in (landed, [row("A1", "1000.00", 2, 0, 5)]):
        spark.createDataFrame(rows, DDL).coalesce(1).write.format("delta").mode("append").save(path)
    return path


@pytest.fixture
def context(spark: SparkSession, table: str) -> ReportContext:
    return ReportContext({"orders": ReportSource(table=table)}, lambda: spark, "c", inputs={table: 0})


def asked(report_type: str, **parameters: Any) -> ReportRequest:
    return ReportRequest("r", report_type, "a@b.c", check_parameters(parameters), "2024-01-01T12:00:01Z")


def test_performance_adds_up_per_account_within_the_dates(context: ReportContext) -> None:
    request = asked("PERFORMANCE", accountIds=["A1", "A9"], **{"from": "2024-01-01", "to": "2024-01-02"})
    report = Performance().make(request, context)
    (found,) = report.rows.to_pylist()
    assert (found["account"], found["records"]) == ("A1", 2)
    assert (found["total"], found["mean"]) == (Decimal("10.000000"), Decimal("5.000000"))
    assert (found["lowest"], found["highest"]) == (Decimal("-0.500000"), Decimal("10.500000"))
    assert report.summary == {"accounts": 1, "records": 2, "missing": ["A9"]}


def test_performance_covers_every_account_when_none_is_named(context: ReportContext) -> None:
    report = Performance().make(asked("PERFORMANCE"), context)
    assert [(r["account"], r["records"], r["total"]) for r in report.rows.to_pylist()] == [
        ("A1", 2, Decimal(10)),
        ("A2", 2, Decimal(3)),
        ("A3", 2, Decimal(2)),
    ]


def test_volume_counts_per_day(context: ReportContext) -> None:
    report = Volume().make(asked("VOLUME", **{"from": "2024-01-02"}), context)
    assert [(str(r["day"]), r["records"], r["accounts"]) for r in report.rows.to_pylist()] == [
        ("2024-01-02", 2, 2),
        ("2024-01-03", 3, 2),
    ]
    assert report.summary == {"days": 2, "records": 5}


def test_completeness_counts_absent_and_doubled_offsets(context: ReportContext) -> None:
    report = Completeness().make(asked("COMPLETENESS"), context)
    names = ("partition", "records", "first_offset", "last_offset", "absent", "doubled")
    assert [tuple(r[n] for n in names) for r in report.rows.to_pylist()] == [
        (0, 3, 0, 4, 2, 0),
        (1, 3, 7, 8, 0, 1),
    ]


@pytest.mark.parametrize(
    "parameters",
    [
        {"from": "yesterday"},
        {"to": 3},
        {"from": "2024-02-01", "to": "2024-01-01"},
        {"accountIds": "A1"},
        {"accountIds": [1]},
        {"source": "unknown"},
    ],
)
def test_wrong_parameters_are_named_when_a_request_has_them(
    context: ReportContext, parameters: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="|".join(parameters)):
        Performance().make(asked("PERFORMANCE", **parameters), context)


def test_the_bytes_are_the_same_when_the_report_is_created_again(
    context: ReportContext, tmp_path: Path
) -> None:
    archive = Archive(Folder(tmp_path))
    refs = {
        archive.put(strategy.make(asked(strategy.report_type), context), request={}, inputs=context.inputs)
        for strategy in (Performance(), Performance(), Performance())
    }
    assert len(refs) == 1


@pytest.mark.guarantee("case: time-06")
def test_a_second_run_reads_the_versions_of_the_first_when_the_table_grew(
    workflow: Callable[..., Workflow], spark: SparkSession, table: str, tmp_path: Path
) -> None:
    own = str(tmp_path / "own")
    spark.read.format("delta").load(table).coalesce(1).write.format("delta").save(own)
    flow = workflow(sources={"orders": ReportSource(table=own)})
    request_id = flow.submit("PERFORMANCE", accountIds=["A1"])
    claimed = Claims(flow.store.engine, owner="died", lease=0.5)
    claim = claimed.claim(request_id, replay=False)
    context = ReportContext(flow.settings.sources, lambda: spark, "c")
    pinned = {own: context.latest_version(own)}
    assert claimed.pin(claim, check_parameters(pinned))
    context.inputs = pinned
    first = Performance().make(claim.row.request, context)
    spark.createDataFrame([row("A1", "77.00", 2, 0, 6)], DDL).write.format("delta").mode("append").save(own)
    flow.worker(Performance(), open_spark=lambda: spark)
    done = flow.wait_for(request_id, Status.COMPLETED, timeout=90)
    archived = flow.archive.read(done.archive_ref or "")
    assert archived is not None
    assert archived.rows() == first.rows.to_pylist()
    assert archived.summary["inputs"] == {own: 0}


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers a strategy by entry point."""
    (tmp_path / "their_reports.py").write_text(
        "class Theirs:\n"
        "    report_type = 'THEIRS'\n"
        "    def tables(self, request, context):\n"
        "        return ()\n"
        "    def make(self, request, context):\n"
        "        raise NotImplementedError\n"
        "broken = 3\n"
    )
    info = tmp_path / "their_reports-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-reports\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ntheirs = their_reports:Theirs\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_strategy_is_found_when_an_installed_package_offers_it(third_party: None) -> None:
    registry = with_landed_strategies(StrategyRegistry()).load_entry_points()
    assert sorted(registry) == ["COMPLETENESS", "PERFORMANCE", "THEIRS", "VOLUME"]


def test_two_strategies_of_one_type_are_refused(third_party: None) -> None:
    registry = with_landed_strategies(StrategyRegistry()).load_entry_points()
    with pytest.raises(ConfigError, match="two strategies make reports of type THEIRS"):
        registry.load_entry_points()


def test_what_is_no_strategy_is_refused_when_an_entry_point_names_it(
    third_party: None, tmp_path: Path
) -> None:
    info = tmp_path / "their_reports-1.0.dist-info" / "entry_points.txt"
    info.write_text(f"[{GROUP}]\ntheirs = their_reports:broken\n")
    with pytest.raises(ConfigError, match="not a report strategy"):
        StrategyRegistry().load_entry_points()


def test_spark_is_not_started_when_a_strategy_does_not_ask_for_it() -> None:
    started = threading.Event()

    def start() -> SparkSession:
        started.set()
        raise AssertionError

    context = ReportContext({}, start, "c")
    assert context.correlation_id == "c"
    assert not started.is_set()


def test_a_report_over_what_was_landed_comes_back_when_it_is_asked_for_in_one_call(
    broker: EmbeddedBroker, spark: SparkSession, table: str, tmp_path: Path
) -> None:
    name = f"now-{uuid.uuid4().hex[:10]}"
    settings = parse_settings(
        f"""
        kafka: {{bootstrap-servers: "{broker.bootstrap}"}}
        connector:
          topics:
            orders:
              kafka-topic: orders
              schema: {{ddl: "account_id STRING, amount DECIMAL(10,2)"}}
              destination: {{bucket: "{Path(table).parent}", path: orders}}
        reports: {{topic: {name}, group-id: {name}}}
        """,
        root=tmp_path,
    )
    archived = report_now(settings, "COMPLETENESS", requested_by="demo", open_spark=lambda: spark)
    assert archived.summary["summary"] == {"partitions": 2, "records": 7, "absent": 2, "doubled": 1}
    assert [row["partition"] for row in archived.rows()] == [0, 1]
    with pytest.raises(RetriableError, match="FAILED"):
        report_now(settings, "NOTHING", requested_by="demo", open_spark=lambda: spark)


def test_sources_are_the_streams_tables_when_the_configuration_names_none(tmp_path: Path) -> None:
    text = """
    kafka: {bootstrap-servers: "localhost:9092"}
    connector:
      topics:
        orders: {kafka-topic: orders, schema: {ddl: "id STRING"}, destination: {bucket: ./lake, path: orders}}
    reports: {sources: %s}
    """
    found = reports_of(parse_settings(text % "{}", root=tmp_path)).sources
    assert {name: source.table for name, source in found.items()} == {"orders": str(tmp_path / "lake/orders")}
    more = "{orders: {account: id}, other: {table: main.bronze.other}, third: {table: lake/third}}"
    found = reports_of(parse_settings(text % more, root=tmp_path)).sources
    assert (found["orders"].account, found["orders"].table) == ("id", str(tmp_path / "lake/orders"))
    assert (found["other"].table, found["third"].table) == ("main.bronze.other", str(tmp_path / "lake/third"))
    with pytest.raises(ConfigError, match="names no table"):
        reports_of(parse_settings(text % "{nothing: {account: id}}", root=tmp_path))
