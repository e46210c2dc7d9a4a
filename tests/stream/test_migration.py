"""Blue and green, there and back, by the commands of the runbook."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.cli.app import main


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """`tidemark ingest` takes them for itself."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_nothing_is_lost_or_doubled_when_a_second_deployment_takes_over_and_the_first_one_comes_back(
    stream: Callable[..., StreamUnderTest], capsys: pytest.CaptureFixture[str]
) -> None:
    flow = stream(partitions=2)
    blue, green = flow.folder / "blue.yml", flow.folder / "green.yml"
    green_table = str(flow.folder / "lake/green")
    document: dict[str, Any] = json.loads(json.dumps(flow.document()))
    blue.write_text(json.dumps(document))
    document["kafka"]["consumer"]["group-id"] += "-green"
    document["checkpoint-root"] += "-green"
    document["state-dir"] += "-green"
    topic = document["connector"]["topics"][NAME]
    topic["destination"]["path"] = "lake/green"
    topic["dead-letter"] = {"topic": f"{flow.topic}-green-dlq"}
    green.write_text(json.dumps(document))

    def run(config: Path, *arguments: str) -> Any:
        """What the command says, as JSON. It must end well."""
        capsys.readouterr()
        assert main([*arguments, "--config", str(config), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    def landed(config: Path) -> dict[str, int]:
        totals: dict[str, int] = run(config, "ingest", "--available-now")["streams"][NAME]
        return {name: totals[name] for name in ("read", "accepted", "rejected", "duplicate")}

    flow.produce(*[good(n) for n in range(6)], BAD)
    assert landed(blue) == {"read": 7, "accepted": 6, "rejected": 1, "duplicate": 0}
    assert main(["check", "--config", str(green)]) == 0
    assert landed(green) == {"read": 7, "accepted": 6, "rejected": 1, "duplicate": 0}
    flow.produce(good(6))
    landed(blue)
    (status,) = run(green, "status")
    assert sum(p["lag"] for p in status["partitions"]) == 1
    assert run(blue, "compare", NAME, green_table)["same"] == 6, "what blue alone has landed is left out"

    flow.produce(good(7), BAD)
    assert landed(green)["accepted"] == 2, "the cut-over: blue is stopped, green goes on"
    flow.produce(good(8))
    assert landed(blue) == {"read": 3, "accepted": 2, "rejected": 1, "duplicate": 0}, "the way back"
    assert flow.ids() == list(range(9))
    assert run(blue, "compare", NAME, green_table)["same"] == 8
    assert [x["value"] for x in flow.dead_letters()] == [BAD, BAD]
