"""The status rows' schema, as numbered migrations that are only ever added to."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

metadata = MetaData()

# Times are seconds since 1970 on the database's own clock, so that workers' clocks need not agree.
requests = Table(
    "report_requests",
    metadata,
    Column("request_id", String(64), primary_key=True),
    Column("report_type", String(64), nullable=False),
    Column("requested_by", String(320), nullable=False),
    Column("parameters_json", Text, nullable=False),
    Column("requested_at", String(32), nullable=False),
    Column("status", String(16), nullable=False),
    Column("correlation_id", String(200), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("published_at", Double),
    Column("event_spent", Integer, nullable=False),
    Column("owner", String(128)),
    Column("claim", BigInteger, nullable=False),
    Column("lease_until", Double),
    Column("attempts", Integer, nullable=False),
    Column("crashes", Integer, nullable=False),
    Column("inputs_json", Text),
    Column("archive_ref", String(128)),
    Column("error_class", String(256)),
    Column("error_message", Text),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("completed_at", Double),
)

migrations_table = Table(
    "report_migrations",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("applied_at", String(32), nullable=False),
)

by_status = Index("report_requests_by_status", requests.c.status, requests.c.updated_at)
by_archive_ref = Index("report_requests_by_archive_ref", requests.c.archive_ref)

# Never change a step that was released: add the next number. A step is a list of statements.
MIGRATIONS: Sequence[tuple[int, Sequence[DDLElement]]] = (
    (1, (CreateTable(requests), CreateIndex(by_status))),
    (2, (CreateIndex(by_archive_ref),)),
)
LATEST = MIGRATIONS[-1][0]


def migrate(engine: Engine) -> list[int]:
    """Brings the database to the newest schema; returns the numbers applied. Safe to run by many at once."""
    applied: list[int] = []
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(771823)"))
        if not inspect(connection).has_table(migrations_table.name):
            connection.execute(CreateTable(migrations_table))
        known = set(connection.scalars(select(migrations_table.c.number)))
        for number, statements in MIGRATIONS:
            if number in known:
                continue
            for statement in statements:
                connection.execute(statement)
            connection.execute(
                migrations_table.insert().values(number=number, applied_at=text("CURRENT_TIMESTAMP"))
            )
            applied.append(number)
    return applied
