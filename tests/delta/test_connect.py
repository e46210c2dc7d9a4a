"""The jobs over Spark Connect, on a server that refuses what serverless compute refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.runtimes.servers import strict_server
from tests.runtimes.strict import Refusals
from tests.runtimes.walks import MODES, configuration, expected, walk
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import create_topic, produce

HERE = Path(__file__).parent
TOPIC = "connect.events"


@pytest.fixture
def config(tmp_path: Path, broker: EmbeddedBroker) -> Path:
    for name in (TOPIC, f"{TOPIC}-dlq"):
        create_topic(broker.bootstrap, name, 2)
    document = {
        **StreamUnderTest(None, broker, TOPIC, tmp_path).document(),
        "metrics": {
            "enabled": True,
            "port": 0,
            "table": {"bucket": str(tmp_path), "path": "lake/metrics"},
        },
    }
    path = tmp_path / "tidemark.yml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Refusals]]:
    with strict_server(tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def remote(strict: tuple[str, Refusals]) -> str:
    return strict[0]


def run(config: Path, remote: str) -> dict[str, object]:
    client = subprocess.run(
        [sys.executable, str(HERE / "connect_client.py"), str(config)],
        capture_output=True,
        text=True,
        timeout=150,
        cwd=config.parent,
        env={**os.environ, "SPARK_REMOTE": remote},
    )
    assert client.returncode == 0, client.stderr[-20000:]
    return dict(json.loads(client.stdout.splitlines()[-1]))


def test_each_record_lands_once_when_the_main_job_runs_over_spark_connect(
    config: Path, remote: str, broker: EmbeddedBroker
) -> None:
    produce(broker.bootstrap, TOPIC, [good(1), BAD, good(2)])
    first = run(config, remote)
    session = "pyspark.sql.connect.session"
    landed = {"session": session, "error": "None", "ids": [1, 2], "state": "FRESH", "lag": 0}
    moved = {"read": 3, "rejected": 1, "committed": True, "latency": True, "table": [3, 1]}
    assert first == {**landed, "metrics": moved}
    produce(broker.bootstrap, TOPIC, [good(3)])
    second = run(config, remote)
    assert second["ids"] == [1, 2, 3]
    assert second["metrics"] == {**moved, "read": 1, "rejected": 0, "table": [1, 0]}


@pytest.mark.timeout(600)
def test_every_serverless_job_passes_when_the_server_refuses_settings_and_caches(
    tmp_path: Path, broker: EmbeddedBroker, strict: tuple[str, Refusals]
) -> None:
    remote, refusals = strict
    refusals.refused.clear()
    has = {"observes_smallest": True, "keeps_rows": False, "takes_settings": False}
    results = walk(sys.executable, configuration(tmp_path, broker, "events"), remote=remote)
    assert results == expected("events", session="connect", has=has)
    # What was asked for once and had another way; each process, the batches' among them, asks for itself.
    assert {what for _, what in refusals.refused} == {
        "checkpoint",
        "spark.databricks.delta.commitInfo.userMetadata",
        "spark.default.parallelism",
    }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_stops_at_its_start_with_advice_when_serverless_cannot_run_it(
    tmp_path: Path, broker: EmbeddedBroker, remote: str, mode: str
) -> None:
    config = configuration(tmp_path, broker, mode)
    with pytest.raises(AssertionError, match="cannot run idempotency") as stopped:
        walk(sys.executable, config, remote=remote)
    assert "tidemark bundle compute job-cluster" in str(stopped.value)
