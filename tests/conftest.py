"""Fixtures that all rings share: one Spark session and one broker a run, both started when first used."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import admin, create_topic, delete_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ["TZ"] = "UTC"
time.tzset()

settings.register_profile(
    "tidemark",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tidemark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of the run: Delta, Kafka and Avro, in UTC, two cores, three tries a task."""
    from tidemark.platform.session import local_session

    folder = tmp_path_factory.mktemp("spark")
    session = local_session(
        "tidemark-tests",
        master="local[2,3]",
        # Brings the jars and the log store; where a bucket is says the test that has one.
        s3={},
        extra_conf={
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            # A suite compiles much and runs little: the second compiler and parallel collection cost more.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    yield session
    session.stop()


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
        create_topic(broker.bootstrap, name, partitions, **configs)
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
