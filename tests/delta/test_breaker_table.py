"""Breakers by their table: what a console sees that shares no folder with the streams."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from tidemark.config.reading.load import load_settings
from tidemark.config.settings import Settings
from tidemark.contract.events import BreakerChanged, StreamStarted
from tidemark.contract.marks import Marks
from tidemark.ingest.monitoring.breaker_table import (
    READ_EVERY,
    BreakerTable,
    KnownBreakers,
    breaker_table_of,
)
from tidemark.monitoring.metrics import Metrics
from tidemark.operations.maintain import Maintenance, maintain_telemetry
from tidemark.resilience.breaker_state import Remembered, State, StateFile
from tidemark.resilience.breakers import FOLDER, Breakers


def settings_in(folder: Path, state: str) -> Settings:
    """One process's settings: its own state folder, the metrics table of all."""
    document = {
        "kafka": {"bootstrap-servers": "localhost:9092"},
        "connector": {"topics": {"orders": {"kafka-topic": "o", "schema": {"ddl": "id INT"}}}},
        "state-dir": str(folder / state),
        "metrics": {"table": {"bucket": str(folder), "path": "metrics"}},
    }
    topic: dict[str, Any] = document["connector"]["topics"]["orders"]  # type: ignore[index]
    topic["destination"] = {"bucket": str(folder), "path": "orders"}
    file = folder / f"{state}.yml"
    file.write_text(yaml.safe_dump(document))
    return load_settings(file)


def writer_of(spark: SparkSession, settings: Settings) -> BreakerTable:
    table = breaker_table_of(settings)
    assert table is not None
    return BreakerTable(
        spark, table, Metrics("t"), application=settings.application_name, breakers=Breakers.of(settings)
    )


def started(stream: str) -> StreamStarted:
    return StreamStarted(stream, "o", "an-id", "orders", Marks({}), fresh=True)


def states(known: KnownBreakers) -> dict[str, str]:
    return {breaker.name: breaker.state.value for breaker in known.all()}


def test_a_console_elsewhere_sees_a_breaker_open_and_closed(spark: SparkSession, tmp_path: Path) -> None:
    job, console = settings_in(tmp_path, "job"), settings_in(tmp_path, "console")
    writer, now = writer_of(spark, job), [0.0]
    known = KnownBreakers(console, lambda: spark, monotonic=lambda: now[0])
    known.read_if_due()
    assert known.all() == []

    writer.emit(BreakerChanged("orders/table", "CLOSED", "OPEN", "503"))
    assert writer.flush() == 1
    known.read_if_due()
    assert known.all() == [], "read again before its time"
    now[0] += READ_EVERY
    known.read_if_due()
    (seen,) = known.all()
    assert (seen.name, seen.state, seen.failures) == ("orders/table", State.OPEN, None)
    assert seen.opened_at is not None

    writer.emit(BreakerChanged("orders/table", "OPEN", "HALF_OPEN", "a probe"))
    writer.flush()
    writer.emit(BreakerChanged("orders/table", "HALF_OPEN", "CLOSED", "it works"))
    writer.flush()
    now[0] += READ_EVERY
    known.read_if_due()
    assert [(b.state, b.opened_at) for b in known.all()] == [(State.CLOSED, None)]


def test_what_a_former_run_left_open_is_closed_when_its_stream_starts_elsewhere(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = settings_in(tmp_path, "first"), settings_in(tmp_path, "second")
    left = writer_of(spark, first)
    for name in ("orders/table", "other/table"):
        left.emit(BreakerChanged(name, "CLOSED", "OPEN", "503"))
    left.flush()
    StateFile(first.state_dir / FOLDER, "orders/table").save(
        Remembered("orders/table", State.OPEN, failures=5, opened_at=1.0)
    )
    console = settings_in(tmp_path, "console")

    again = writer_of(spark, first)  # it has the folder of the former run
    again.emit(started("orders"))
    assert again.flush() == 0

    new = writer_of(spark, second)
    new.emit(started("orders"))
    assert new.flush() == 1
    known = KnownBreakers(console, lambda: spark)
    known.read_if_due()
    assert states(known) == {"orders/table": "CLOSED", "other/table": "OPEN"}


def test_the_folder_of_a_console_says_more_than_the_table(spark: SparkSession, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, "one")
    writer = writer_of(spark, settings)
    writer.emit(BreakerChanged("orders/table", "CLOSED", "OPEN", "503"))
    writer.flush()
    file = StateFile(settings.state_dir / FOLDER, "orders/table")
    file.save(Remembered("orders/table", State.HALF_OPEN, failures=5, opened_at=1.0))
    known = KnownBreakers(settings, lambda: spark)
    known.read_if_due()
    assert [(b.state, b.failures) for b in known.all()] == [(State.HALF_OPEN, 5)]


def test_small_files_of_telemetry_are_combined_and_rows_stay_when_it_is_maintained(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = settings_in(tmp_path, "job")
    table, how = breaker_table_of(settings), Maintenance(today=date(2026, 3, 1))
    assert table is not None
    assert list(maintain_telemetry(spark, settings, how)) == []
    writer = writer_of(spark, settings)
    for number, state in enumerate([State.OPEN, State.HALF_OPEN, State.CLOSED]):
        writer.emit(BreakerChanged("orders/table", State.CLOSED, state, f"change {number}"))
        assert writer.flush() == 1
    before = spark.table(table.sql).collect()

    done = {(step.table, step.what): step.files for step in maintain_telemetry(spark, settings, how)}

    assert done == {(str(table), "compacted"): 3, (str(table), "vacuumed"): 0}
    assert sorted(spark.table(table.sql).collect()) == sorted(before)
    (detail,) = spark.sql(f"DESCRIBE DETAIL {table.sql}").collect()
    assert detail["numFiles"] == 1
