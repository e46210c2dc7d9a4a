"""`tidemark breaker` shows and closes what the breakers of this machine remember."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemark.cli import app as cli
from tidemark.config.reading.load import load_settings
from tidemark.contract.errors import BreakerOpen
from tidemark.resilience.breaker_state import State
from tidemark.resilience.breakers import Breakers

CONFIG = """
state-dir: state
breaker: {failure-threshold: 1}
kafka: {bootstrap-servers: "127.0.0.1:1", consumer: {group-id: g}}
connector:
  topics:
    orders: {kafka-topic: orders, schema: {ddl: "id INT"}, destination: {bucket: ./lake, path: orders}}
"""


@pytest.mark.guarantee("reliability: breaker: reset")
def test_an_open_breaker_is_shown_and_closed_also_for_the_process_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(CONFIG)
    breakers = Breakers.of(load_settings(config))
    open_one = breakers.get("orders/table")
    open_one.acquire().failed("away")
    with pytest.raises(BreakerOpen):
        open_one.acquire()

    capsys.readouterr()
    assert cli.main(["breaker", "list", "--json", "--config", str(config)]) == 0
    (reported,) = json.loads(capsys.readouterr().out)
    assert (reported["name"], reported["state"], reported["failures"]) == ("orders/table", "OPEN", 1)
    assert cli.main(["breaker", "list", "--config", str(config)]) == 0
    assert "OPEN" in capsys.readouterr().out

    assert cli.main(["breaker", "reset", "orders/nothing", "--config", str(config)]) == 2
    assert "there are: orders/table" in capsys.readouterr().err
    assert cli.main(["breaker", "reset", "orders/table", "--config", str(config)]) == 0
    assert open_one.state is State.CLOSED
    open_one.acquire().succeeded()


def test_no_breaker_is_listed_when_none_was_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(CONFIG)
    assert cli.main(["breaker", "list", "--config", str(config)]) == 0
    assert "no breaker has been used yet" in capsys.readouterr().out
    assert cli.main(["breaker", "reset", "--json", "--config", str(config)]) == 0
    assert json.loads(capsys.readouterr().out) == {"closed": []}
