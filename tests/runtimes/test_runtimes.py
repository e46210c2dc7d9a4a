"""The product's path on every Spark and client it names; `.ci/runtimes` makes their environments."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtimes.servers import connect_server
from tests.runtimes.walks import MODES, configuration, expected, walk

from tidemark.dev.broker import EmbeddedBroker

ENVIRONMENTS = Path(__file__).parents[2] / ".cache" / "runtimes"
OLD = {"observes_smallest": False, "keeps_rows": True, "takes_settings": True}
NEW = OLD | {"observes_smallest": True}

CLASSIC = {"spark-4.0": OLD, "spark-4.1": OLD}
CLIENTS = {
    "databricks-connect-17.3": ("spark-4.0", OLD),
    "databricks-connect-18.0": ("spark-4.1", OLD),
    "databricks-connect-19.3": ("spark-4.2", NEW),
}
"""Each with the Spark of its runtime, whose packages run a batch there: the clients have no worker of their own."""


def python_of(name: str) -> str:
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment {name}: make test-runtimes makes it")
    return str(python)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", CLASSIC)
def test_the_path_of_a_record_is_the_same_on_an_older_spark(
    tmp_path: Path, broker: EmbeddedBroker, name: str
) -> None:
    streams = ("events", *MODES)
    steps = walk(python_of(name), configuration(tmp_path, broker, *streams))
    assert steps == expected(*streams, session="session", has=CLASSIC[name])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", CLIENTS)
def test_the_path_of_a_record_is_the_same_by_each_client_of_databricks(
    tmp_path: Path, broker: EmbeddedBroker, name: str
) -> None:
    # The mode `fingerprint` asks for a state store that Databricks' servers alone have.
    streams = ("events", "people")
    config = configuration(tmp_path, broker, *streams)
    worker, has = CLIENTS[name]
    with connect_server(tmp_path, server=python_of("spark-4.2"), worker=python_of(worker)) as remote:
        steps = walk(python_of(name), config, remote=remote)
    assert steps == expected(*streams, session="connect", has=has)
