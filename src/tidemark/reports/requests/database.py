"""Opens the status database so that several processes can use it safely."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Engine,
    cast,
    create_engine,
    event,
    extract,
    func,
    literal_column,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from tidemark.contract.errors import ConfigError


def open_engine(url: str) -> Engine:
    """SQLite or PostgreSQL. Raises `ConfigError`, without the URL's password, for anything else."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            "`reports.database` is not a database URL", hint="e.g. sqlite:///reports.db"
        ) from error
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).absolute().parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, connect_args={"timeout": 30})
        _prepare_sqlite(engine)
        return engine
    if kind != "postgresql":
        raise ConfigError(f"`reports.database` names {kind}", hint="SQLite and PostgreSQL are supported")
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return create_engine(parsed, pool_pre_ping=True, connect_args={"connect_timeout": 10})


def now_of(engine: Engine) -> ColumnElement[float]:
    """The database's clock, in seconds since 1970."""
    if engine.dialect.name == "sqlite":
        return literal_column("((julianday('now') - 2440587.5) * 86400.0)", Double)
    return cast(extract("epoch", func.clock_timestamp()), Double)


def _prepare_sqlite(engine: Engine) -> None:
    # Write-ahead logging lets readers go on next to a writer; taking the write lock at BEGIN avoids the
    # deadlock of two transactions that both want to upgrade from reading.
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
