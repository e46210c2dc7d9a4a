"""Wrong use of the commands that move marks, decode again and tidy up is reported before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.cli.app import main

CONFIGURATION = """
kafka: {bootstrap-servers: "127.0.0.1:9", consumer: {group-id: group}}
connector:
  topics:
    orders:
      kafka-topic: orders
      supported-formats: [JSON]
      schema: {ddl: "id INT"}
      destination: {bucket: ./lake, path: orders}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "tidemark.yml").write_text(CONFIGURATION)
    return tmp_path / "tidemark.yml"


@pytest.mark.guarantee("case: ops-02")
@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["rewind", "-s", "orders"], "say where to"),
        (["rewind", "-s", "orders", "--to-latest", "--to-earliest"], "say where to"),
        (["rewind", "-s", "orders", "--to-offset", "0:5"], "write PARTITION=OFFSET"),
        (["rewind", "-s", "orders", "--to-offset", "0=5", "--to-offset", "0=6"], "twice"),
        (["rewind", "-s", "nobody", "--to-earliest"], "nobody"),
        (["backfill", "-s", "orders", "--range", "0=5..5"], "write PARTITION=FROM..TO"),
        (["backfill", "-s", "orders", "--range", "0=5..6", "--range", "0=7..9"], "twice"),
        (["backfill", "-s", "nobody"], "nobody"),
        (["maintain", "--retention-hours", "1"], "below 168 h"),
        (["maintain", "-s", "nobody"], "nobody"),
        (["compare", "orders:landing", "orders"], "has no landing table"),
    ],
)
def test_wrong_use_is_reported_and_nothing_starts(
    arguments: list[str], reported: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--config", str(config)]) == 2
    assert reported in capsys.readouterr().err
