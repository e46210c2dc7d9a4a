"""The status database: migrations on both kinds, and the refusal of another URL."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import inspect, select, text

from tidemark.config.reports import Reports
from tidemark.contract.errors import ConfigError, RetriableError
from tidemark.dev.kafka_server import free_ports
from tidemark.reports.assembly import open_store
from tidemark.reports.requests.database import open_engine
from tidemark.reports.requests.request import ReportRequest, Status
from tidemark.reports.requests.store import StatusStore
from tidemark.reports.requests.tables import LATEST, MIGRATIONS, metadata, migrate, migrations_table, requests

REQUEST = ReportRequest("r-1", "ECHO", "a@b.c", "{}", "2024-01-01T12:00:01Z")


def test_every_step_is_applied_once_when_a_database_is_migrated_twice(database: str) -> None:
    engine = open_engine(database)
    assert migrate(engine) == [number for number, _ in MIGRATIONS]
    assert migrate(engine) == []
    with engine.connect() as connection:
        assert list(connection.scalars(select(migrations_table.c.number))) == list(range(1, LATEST + 1))
    columns = {column["name"] for column in inspect(engine).get_columns(requests.name)}
    assert columns == {column.name for column in requests.columns}
    indexes = {index["name"] for index in inspect(engine).get_indexes(requests.name)}
    assert {index.name for index in metadata.tables[requests.name].indexes} <= indexes
    engine.dispose()


def test_a_database_of_an_older_version_keeps_its_rows_when_it_is_migrated(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(database)
    with monkeypatch.context() as older:
        older.setattr("tidemark.reports.requests.tables.MIGRATIONS", MIGRATIONS[:1])
        assert migrate(engine) == [1]
    StatusStore(engine).submit(REQUEST, correlation_id="c")
    assert migrate(engine) == [2]
    row = StatusStore(engine).get("r-1")
    assert row is not None
    assert (row.request, row.status) == (REQUEST, Status.SUBMITTED)
    engine.dispose()


def test_the_schema_is_made_once_when_many_workers_start_at_once(database: str) -> None:
    engines = [open_engine(database) for _ in range(6)]
    applied: list[list[int]] = []
    threads = [threading.Thread(target=lambda e=engine: applied.append(migrate(e))) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(applied) == [[]] * 5 + [[number for number, _ in MIGRATIONS]]
    for engine in engines:
        engine.dispose()


def test_the_clock_is_the_databases_own(database: str) -> None:
    import time

    engine = open_engine(database)
    with engine.connect() as connection:
        now = connection.scalar(select(StatusStore(engine).now))
    assert now is not None
    assert abs(now - time.time()) < 5
    engine.dispose()


def test_text_of_any_script_comes_back_as_it_was(database: str) -> None:
    engine = open_engine(database)
    migrate(engine)
    request = ReportRequest(
        "ключ-1",
        "ECHO",
        "名前@例.jp",
        '{"a":"\u00e9\U0001f30a\\u0000\'; DROP TABLE x"}',
        "2024-01-01T12:00:01Z",
    )
    StatusStore(engine).submit(request, correlation_id="c")
    row = StatusStore(engine).get("ключ-1")
    assert row is not None
    assert row.request == request
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM report_requests")) == 1
    engine.dispose()


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "not a url", "sqlite-ish"])
def test_a_wrong_url_is_refused_without_its_password_when_it_is_no_known_database(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_engine(url)
    assert "secret" not in str(refused.value)


def test_the_error_hides_the_password_when_a_database_cannot_be_reached() -> None:
    (port,) = free_ports(1)
    with pytest.raises(RetriableError) as failed:
        open_store(Reports(database=f"postgresql://user:secret@127.0.0.1:{port}/reports"))
    assert "cannot be reached" in str(failed.value)
    assert "secret" not in str(failed.value)
