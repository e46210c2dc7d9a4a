"""The report worker's job says what it lacks before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.config.reading.load import parse_settings
from tidemark.contract.errors import ConfigError
from tidemark.reports.job import report_worker_job

BASE = """
kafka: {bootstrap-servers: 'b:1'}
connector: {topics: {s: {kafka-topic: t, schema: {ddl: id INT}, destination: {table: c.s.t}}}}
"""
NO_SPARK: Any = None


def test_a_configuration_without_reports_is_refused_with_what_to_add() -> None:
    with pytest.raises(ConfigError, match="no section `reports`") as refused:
        report_worker_job(NO_SPARK, parse_settings(BASE))
    assert "PostgreSQL" in str(refused.value)


def test_sqlite_is_refused_on_databricks_where_nobody_else_sees_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.0")
    settings = parse_settings(BASE + "reports: {database: 'sqlite:///reports.db'}\n")
    with pytest.raises(ConfigError, match="is SQLite"):
        report_worker_job(NO_SPARK, settings)


def test_several_workers_share_no_sqlite_file() -> None:
    with pytest.raises(ConfigError, match="3 workers share no SQLite file"):
        parse_settings(BASE + "reports: {workers: 3}\n")
    kept = parse_settings(BASE + "reports: {workers: 3, database: 'postgresql+psycopg://u@h/d'}\n").reports
    assert kept is not None
    assert kept.workers == 3
