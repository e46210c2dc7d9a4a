"""What serverless compute cannot run is refused before a stream starts, by its key and with what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidemark.cli.app import main
from tidemark.config.reading.load import parse_settings
from tidemark.config.serverless import serverless_faults
from tidemark.contract.errors import ConfigError
from tidemark.platform.dbutils import LocalDbutils, LocalSecrets, LocalWidgets
from tidemark.platform.notebook import app_environment, open_notebook


def document(root: str = "/Volumes/c/s/checkpoints", **idempotency: Any) -> str:
    stream = {
        "kafka-topic": "t",
        "schema": {"ddl": "id INT"},
        "destination": {"table": "c.s.t"},
        "idempotency": idempotency,
    }
    return json.dumps(
        {
            "kafka": {"bootstrap-servers": "b:1"},
            "connector": {"topics": {"s": stream}},
            "checkpoint-root": root,
        }
    )


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (document(), []),
        (document(mode="merge"), ["connector.topics.s.idempotency.mode"]),
        (document(**{"mode": "merge", "merge-keys": ["id"]}), ["connector.topics.s.idempotency.mode"]),
        (document(mode="fingerprint"), ["connector.topics.s.idempotency.mode"]),
        (document(root="/tmp/checkpoints"), ["checkpoint-root"]),
        (document(root="s3a://b/checkpoints"), ["checkpoint-root"]),
    ],
)
def test_each_key_that_needs_what_serverless_compute_lacks_is_a_fault(text: str, keys: list[str]) -> None:
    faults = list(serverless_faults(parse_settings(text)))
    assert [fault.key for fault in faults] == keys
    assert all(fault.problem and fault.hint for fault in faults)


def test_check_refuses_it_only_when_it_is_asked_for_serverless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tidemark.yml"
    config.write_text(document(mode="fingerprint"))
    assert main(["check", "--quick", "--config", str(config)]) == 0
    assert main(["check", "--quick", "--serverless", "--config", str(config)]) == 2
    output = capsys.readouterr()
    assert "tidemark bundle compute job-cluster" in output.out + output.err


def notebook(folder: Path, text: str, config: str | None = None) -> LocalDbutils:
    (folder / "conf").mkdir()
    (folder / "conf/tidemark.yml").write_text(text)
    made = LocalDbutils(LocalWidgets({}), LocalSecrets({}))
    made.widgets.text("config", str(folder / "conf/tidemark.yml") if config is None else config)
    return made


def test_a_notebook_on_serverless_compute_stops_at_a_mode_that_cannot_run_there(tmp_path: Path) -> None:
    given = notebook(tmp_path, document(mode="merge"))
    with pytest.raises(ConfigError, match="does not run on serverless compute"):
        open_notebook(given, environ={"DATABRICKS_RUNTIME_VERSION": "client.4.1"})
    assert open_notebook(given, environ={"DATABRICKS_RUNTIME_VERSION": "18.0"}).settings.streams


def test_a_notebook_finds_the_configuration_when_the_working_directory_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = notebook(tmp_path, document(), config="")
    below = tmp_path / "notebooks" / "explore"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert open_notebook(given, environ={}).settings.streams
    elsewhere = tmp_path.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    monkeypatch.chdir(elsewhere)
    with pytest.raises(ConfigError, match="in the folders above this notebook"):
        open_notebook(given, environ={})


def test_an_app_without_a_scope_has_its_environment_alone() -> None:
    environ = {"A": "1"}
    assert app_environment(environ) is environ
