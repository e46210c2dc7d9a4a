"""What a notebook is given becomes settings: widgets, secrets, the trigger that the compute can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.bundle.notebook_source import cells_of, widgets_of
from tidemark.contract.errors import ConfigError, UsageError
from tidemark.platform.dbutils import LocalDbutils, LocalSecrets, LocalWidgets, NotebookExit
from tidemark.platform.notebook import open_notebook

CONFIGURATION = """
kafka:
  bootstrap-servers: ${KAFKA_BOOTSTRAP_SERVERS}
  security:
    protocol: SASL_SSL
    sasl: {username: "${KAFKA_USERNAME}", password: "${KAFKA_PASSWORD}"}
connector:
  topics:
    s: {kafka-topic: t, schema: {ddl: id INT}, destination: {table: "${TIDEMARK_CATALOG}.x.s"}}
"""
SECRETS = {"TIDEMARK_SECRET_KAFKA_DEV_KAFKA_USERNAME": "u", "TIDEMARK_SECRET_KAFKA_DEV_KAFKA_PASSWORD": "p"}


def dbutils(folder: Path, **given: str) -> LocalDbutils:
    file = folder / "tidemark.yml"
    file.write_text(CONFIGURATION)
    values = {"config": str(file), "catalog": "dev", "kafka_bootstrap": "b:1", **given}
    found = LocalDbutils(LocalWidgets(values), LocalSecrets(SECRETS))
    for name in ("config", "target", "catalog", "kafka_bootstrap", "secret_scope", "streams", "trigger"):
        found.widgets.text(name, "availableNow" if name == "trigger" else "")
    return found


def test_widgets_and_secrets_fill_the_configuration(tmp_path: Path) -> None:
    run = open_notebook(dbutils(tmp_path, secret_scope="kafka-dev", streams="s"), environ={})
    assert run.settings.kafka.bootstrap_servers == "b:1"
    assert str(run.settings.tables("s")["decoded"]) == "dev.x.s"
    password = run.settings.kafka.security.sasl.password
    assert password is not None
    assert password.get_secret_value() == "p"
    assert (run.streams, run.available_now) == (("s",), True)
    assert "'p'" not in repr(run)


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fault"):
        open_notebook(dbutils(tmp_path, secret_scope="other"), environ={})


def test_an_endless_trigger_is_refused_when_the_compute_is_serverless(tmp_path: Path) -> None:
    given = dbutils(tmp_path, secret_scope="kafka-dev", trigger="processingTime")
    with pytest.raises(ConfigError, match="serverless"):
        open_notebook(given, environ={"DATABRICKS_RUNTIME_VERSION": "client.4.1"})
    assert not open_notebook(given, environ={"DATABRICKS_RUNTIME_VERSION": "19.0"}).available_now


def test_the_error_names_a_widget_or_a_part_when_it_is_not_there() -> None:
    local = LocalDbutils()
    with pytest.raises(UsageError, match="no widget"):
        local.widgets.get("lost")
    with pytest.raises(UsageError, match="fs"):
        local.fs.ls("/")
    with pytest.raises(NotebookExit):
        local.notebook.exit("done")


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "notebooks").rglob("*.py")), ids=lambda p: p.stem
)
def test_every_notebook_has_a_title_cells_and_widgets_in_source_format(path: Path) -> None:
    cells = cells_of(path.read_text())
    assert cells[0].kind == "md"
    assert cells[0].text.startswith("# ")
    assert len([c for c in cells if c.kind == "code"]) >= 2
    assert {"config", "target", "catalog", "schema"} <= {w.name for w in widgets_of(path)}
