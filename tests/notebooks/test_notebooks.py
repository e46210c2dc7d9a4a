"""Every notebook runs as it is, in one kernel, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.notebook_run import IN_ORDER, notebook_runner

from tidemark.dev.broker import EmbeddedBroker

ROOT = Path(__file__).parents[2]


def shown(executed: Path) -> str:
    cells = json.loads(executed.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "\n".join("".join(output.get("data", {}).get("text/plain", "")) for output in outputs)


def test_the_order_names_every_notebook() -> None:
    folder = ROOT / "notebooks"
    there = {p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.py")}
    assert there == set(IN_ORDER)


@pytest.mark.timeout(600)
def test_every_notebook_runs_to_its_end_on_a_real_broker(
    tmp_path: Path, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_DRIVER_MEMORY", "1g")
    # It compiles much and runs little: the second compiler and parallel collection cost more.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    with notebook_runner(ROOT, tmp_path / "notebooks", broker.bootstrap) as runner:
        shown_by = {name: shown(runner.run(name)) for name in IN_ORDER}
    assert "created" in shown_by["create_tables"]
    assert "'read': 300" in shown_by["ingest"]
    assert "'rejected': 0" not in shown_by["ingest"]
    assert "'user-events'" in shown_by["dead_letters"]
    assert "'dry_run': True" in shown_by["replay"]
    assert "compacted" in shown_by["maintenance"]
    assert "rejected" in shown_by["explore/records"]
    assert "new" in shown_by["explore/dead_letters"]
