"""The main job over Spark Connect: classified there, and its batch handler shipped to the server's side."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
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


@pytest.fixture
def remote(config: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (config.parent / "server.log").open("w") as said:
        server = subprocess.Popen(
            [sys.executable, str(HERE / "connect_server.py"), str(config), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=config.parent,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        assert server.stdout is not None
        try:
            assert "serving\n" in iter(server.stdout.readline, ""), (config.parent / "server.log").read_text()
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.communicate(timeout=60)


def run(config: Path, remote: str) -> dict[str, object]:
    told = subprocess.run(
        [sys.executable, str(HERE / "connect_client.py"), str(config)],
        capture_output=True,
        text=True,
        timeout=150,
        cwd=config.parent,
        env={**os.environ, "SPARK_REMOTE": remote},
    )
    assert told.returncode == 0, told.stderr[-20000:]
    return dict(json.loads(told.stdout.splitlines()[-1]))


def test_each_record_lands_once_when_the_main_job_runs_over_spark_connect(
    config: Path, remote: str, broker: EmbeddedBroker
) -> None:
    produce(broker.bootstrap, TOPIC, [good(1), BAD, good(2)])
    first = run(config, remote)
    session = "pyspark.sql.connect.session"
    told = {"session": session, "error": "None", "ids": [1, 2], "state": "FRESH", "lag": 0}
    moved = {"read": 3, "rejected": 1, "committed": True, "latency": True, "table": [3, 1]}
    assert first == {**told, "metrics": moved}
    produce(broker.bootstrap, TOPIC, [good(3)])
    second = run(config, remote)
    assert second["ids"] == [1, 2, 3]
    assert second["metrics"] == {**moved, "read": 1, "rejected": 0, "table": [1, 0]}
