"""Fixtures that all rings share: one Spark session and one broker a run, both started when first used."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import admin, create_topic, delete_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ["TZ"] = "UTC"
time.tzset()

CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing"

QUICK = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTS}.FileSystemBasedCheckpointFileManager",
}
"""For a handful of rows, generating and compiling code costs more than evaluating the tree, and planning
again costs more than it saves. Spark's other way to a local checkpoint starts `chmod` and `readlink` for each
file. What is about Spark's ways of evaluating asks for `as_shipped`."""

SHIPPED = dict(
    zip(
        QUICK,
        ("FALLBACK", "true", "true", f"{CHECKPOINTS}.FileContextBasedCheckpointFileManager"),
        strict=True,
    )
)

JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m -XX:+UseSerialGC -Xms1g"
    " -Xmn512m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Djdk.lang.Process.launchMechanism=VFORK"
)
"""A suite compiles much and runs little: the second compiler and parallel collection cost more than they
give. The first one alone has room for 48 MB of code, which a suite fills; it compiles over and over then.
With room for classes and for what a batch leaves behind, it collects a fifth as often.
Classes of pinned jars need no verification at each start. Hadoop starts a `chmod` or `readlink` for each file:
without Java's helper process these cost two thirds."""

# By the environment, so that the processes that tests start are as quick.
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)
os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS", " ".join([*(f"--conf {k}={v}" for k, v in QUICK.items()), "pyspark-shell"])
)

LONGEST = (
    *("stream/test_survival", "stream/test_processes", "stream/test_modes", "faults/test_faults"),
    *("faults/test_broker_faults", "s3/test_s3", "stream/test_outages", "reports/test_workflow"),
    *("stream/test_fingerprint_memory", "delta/test_connect"),
    *("stream/test_options", "stream/test_marks_by_hand", "stream/test_demo", "listener/test_rebalance"),
    *("dead_letters/test_replay", "dead_letters/test_foreign", "reports/test_kills", "reports/test_commands"),
    *("faults/test_scenarios", "dead_letters/test_killed_replay", "dead_letters/test_random_kills"),
    *("stream/test_migration", "stream/test_lost_tables", "stream/test_clocks", "stream/test_identity"),
    *("stream/test_main_job", "notebooks/test_notebooks", "stream/test_telemetry", "console/test_bad_input"),
)
"""Files are handed out in this order, then the rest: a long one that begins last is waited for alone."""

WAITING = (
    *("listener/", "reports/", "kafka/", "console/", "bundle/test_deploy", "s3/test_s3"),
    *("faults/test_broker_faults", "stream/test_outages", "stream/test_heartbeat"),
)
"""Files whose tests wait more than they compute: one after each two others, so that the cores are never left
to them alone."""

settings.register_profile(
    "tidemark",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tidemark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def file(item: pytest.Item) -> str:
        return f"{item.path.parent.name}/{item.path.stem}"

    places = {name: place for place, name in enumerate(LONGEST)}
    files = sorted(dict.fromkeys(map(file, items)), key=lambda name: places.get(name, len(places)))
    waiting = iter([name for name in files if name.startswith(WAITING)])
    order: list[str] = []
    for number, name in enumerate(name for name in files if not name.startswith(WAITING)):
        order += [name, *itertools.islice(waiting, number % 2)]
    turn = {name: place for place, name in enumerate([*order, *waiting])}
    items.sort(key=lambda item: turn[file(item)])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After a long run, what its files took: the order of `LONGEST`."""
    spent: Counter[str] = Counter()
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            spent[report.nodeid.partition("::")[0]] += report.duration
    if spent.total() > 600:
        terminalreporter.section("slowest files")
        for file, seconds in spent.most_common(40):
            terminalreporter.write_line(f"{seconds:7.1f}s {file}")


def remember_java() -> None:
    """From here on, this process asks its JVM once for each class and static method, as neither changes. PySpark
    asks for both at each function of a column, three requests instead of one.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JVMView

    def remember(found_in: type, kind: type) -> None:
        ask = found_in.__getattr__

        def remembered(self: Any, name: str) -> Any:
            known = self.__dict__.setdefault("_known", {})
            if name not in known:
                found = ask(self, name)
                if type(found) is not kind:
                    return found
                known[name] = found
            return known[name]

        found_in.__getattr__ = remembered

    remember(JVMView, JavaClass)
    remember(JavaClass, JavaMember)


@pytest.fixture(scope="session")
def running_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of the run: Delta, Kafka and Avro, in UTC, two cores, three tries a task."""
    from tidemark.platform.session import local_session

    folder = tmp_path_factory.mktemp("spark")
    remember_java()
    session = local_session(
        "tidemark-tests",
        master="local[2,3]",
        # Brings the jars and the log store; where a bucket is says the test that has one.
        s3={},
        extra_conf={
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        },
    )
    yield session
    # A thread has a connection of its own: a call that a test broke off may have left its answer on this one's.
    stopping = threading.Thread(target=session.stop)
    stopping.start()
    stopping.join()


@pytest.fixture(scope="session")
def spark(running_spark: SparkSession) -> SparkSession:
    """The one session of the run."""
    return running_spark


@pytest.fixture(scope="module")
def as_shipped(running_spark: SparkSession) -> Iterator[None]:
    """A module's tests with generated code and adaptive plans, as every session has them but the suite's."""
    for name, value in SHIPPED.items():
        running_spark.conf.set(name, value)
    yield
    for name, value in QUICK.items():
        running_spark.conf.set(name, value)


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """The one broker of the run. Tests that kill, pause or configure a broker start their own."""
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def topic(
    broker: EmbeddedBroker, _numbers: Iterator[int], request: pytest.FixtureRequest
) -> Iterator[Callable[..., str]]:
    """Makes a topic nobody else has: `topic(partitions=3, cleanup_policy="compact")` returns its name."""
    made: list[str] = []

    def make(partitions: int = 1, **configs: str) -> str:
        name = (
            f"t{next(_numbers)}-{request.node.originalname or 'test'}"[:200]
            .replace("[", "-")
            .replace("]", "")
        )
        # Many records are dated long ago: the broker's usual week would delete them under a test that takes long.
        create_topic(broker.bootstrap, name, partitions, **{"retention_ms": "-1", **configs})
        made.append(name)
        return name

    yield make
    if broker.running:
        for name in made:
            # A test may have deleted it itself.
            if name in admin(broker.bootstrap).list_topics(timeout=10).topics:
                delete_topic(broker.bootstrap, name)


@pytest.fixture
def tmp(tmp_path: Path) -> Callable[[str], str]:
    """Path of a new table or checkpoint folder, by name: `tmp("orders")`."""
    return lambda name: str(tmp_path / name)
