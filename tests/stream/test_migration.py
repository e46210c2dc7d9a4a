"""Migration and rollback: every command of these sections of the runbook is typed, in its order."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.cli.app import main
from tidemark.config.destination import TableRef
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.sink.table_log import DeltaLog
from tidemark.source.topics import KafkaAdmin

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """`tidemark ingest` takes them for itself."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def typed_in(section: str) -> list[list[str]]:
    """The lines of each block of a section that a person types."""
    _, _, rest = RUNBOOK.read_text(encoding="utf-8").partition(f"\n## {section}\n")
    text = rest.partition("\n## ")[0]
    blocks = re.findall(r"(?:^    .*\n)+", text, flags=re.MULTILINE)
    return [[line.strip() for line in block.splitlines()] for block in blocks]


@dataclass
class Person:
    """Types lines in the folder of a deployment. `actions`: what a line that says what to do means."""

    flow: StreamUnderTest
    capsys: pytest.CaptureFixture[str]
    actions: dict[str, Callable[[], object]] = field(default_factory=dict)
    version: int = 0
    before_ingest: list[Callable[[], object]] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    output: str = ""

    def types(self, lines: list[str]) -> None:
        for line in lines:
            if line.startswith("#"):
                self.actions[line.removeprefix("# ").partition(":")[0].partition(" (")[0]]()
            elif line.startswith("tidemark "):
                self._command(shlex.split(line, comments=True)[1:])
            else:
                there = line.replace("/data/lake", str(self.flow.folder / "lake"))
                exec(re.sub(r"AS OF \d+", f"AS OF {self.version}", there), self.names)

    def _command(self, arguments: list[str]) -> None:
        self.capsys.readouterr()
        if arguments[0] == "ingest":
            self.before_ingest.pop(0)()
            green = "green.yml" in arguments
            threading.Thread(target=self._stop_when_landed, args=(green,), daemon=True).start()
        assert main(arguments) == 0
        self.output = self.capsys.readouterr().out

    def _stop_when_landed(self, green: bool) -> None:
        """SIGTERM, as the runbook says, once nothing is left to land."""
        handler = signal.getsignal(signal.SIGTERM)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            time.sleep(0.3)
            started = signal.getsignal(signal.SIGTERM) is not handler
            if started and self._offsets(green) >= self._sent():
                break
        os.kill(os.getpid(), signal.SIGTERM)

    def _sent(self) -> int:
        admin = KafkaAdmin(self.flow.settings().kafka)
        return sum(admin.ends(admin.describe(self.flow.topic)).values())

    def _offsets(self, green: bool) -> int:
        marks = [own.marks for own in self.commits(green=green)[-1:]]
        return sum(marks[0].values()) if marks else -1

    def table(self, *, green: bool = False) -> TableRef:
        return TableRef(path=str(self.flow.folder / f"lake/orders{'_green' if green else ''}"))

    def commits(self, *, green: bool = False) -> list[LedgerCommit]:
        """Oldest first."""
        if not (Path(str(self.table(green=green).path)) / "_delta_log").exists():
            return []
        entries = DeltaLog(self.flow.spark, self.table(green=green))(1000).entries
        return [e.ledger_commit for e in reversed(entries) if e.ledger_commit is not None]

    def ids(self, *, green: bool = False) -> list[int]:
        rows = self.flow.spark.read.format("delta").load(str(self.table(green=green).path))
        return sorted(r["id"] for r in rows.select("id").collect())


@pytest.fixture
def person(
    stream: Callable[..., StreamUnderTest],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Person:
    flow = stream(partitions=2)
    person = Person(flow, capsys)
    person.actions |= {"stop the stream": lambda: None, "stop green": lambda: None}
    write(flow, "conf/tidemark.yml")
    monkeypatch.chdir(flow.folder)
    return person


def write(flow: StreamUnderTest, file: str, *, mode: str = "kafka-native", green: bool = False) -> None:
    """The deployment's configuration, as the runbook says that the green one differs from the blue."""
    document: dict[str, Any] = json.loads(json.dumps(flow.document()))
    topic = document["connector"]["topics"].pop(NAME)
    topic["destination"] = {"bucket": "./lake", "path": "orders"}
    topic["processing"] = {"batch-size": 1, "flush-interval": 1, "poll-interval": 0.2}
    topic["idempotency"] = {"mode": mode}
    document["connector"]["topics"]["orders"] = topic
    if green:
        document["kafka"]["consumer"]["group-id"] += "-green"
        document["checkpoint-root"] += "-green"
        document["state-dir"] += "-green"
        topic["destination"]["path"] = "orders_green"
        topic["dead-letter"] = {"topic": f"{flow.topic}-green-dlq"}
    (flow.folder / file).parent.mkdir(exist_ok=True)
    (flow.folder / file).write_text(json.dumps(document))


def test_the_runbooks_migration_and_rollback_work_when_they_are_followed(
    person: Person,
) -> None:
    flow = person.flow
    (migration,) = typed_in("Migration: another way to be idempotent")
    of_a_mode, _, of_rows = typed_in("Rollback")
    person.before_ingest = [
        lambda: flow.produce(*[good(n) for n in range(5)], BAD),
        lambda: flow.produce(good(5), good(6)),
        lambda: flow.produce(good(7), BAD),
        lambda: flow.produce(good(8)),
    ]
    person.actions["change idempotency.mode"] = lambda: write(flow, "conf/tidemark.yml", mode="fingerprint")
    person.actions["change idempotency.mode back"] = lambda: write(flow, "conf/tidemark.yml")

    person.types(["tidemark ingest"])
    person.version = flow.spark.sql(f"DESCRIBE HISTORY {person.table().sql} LIMIT 1").first()["version"]
    person.types(migration)
    assert person.ids() == list(range(7))
    assert person.commits()[-1].checkpoint.startswith("fingerprint-")
    person.types(of_a_mode)
    assert person.ids() == list(range(8))
    assert person.commits()[-1].checkpoint.startswith("kafka-native-")
    person.types(of_rows)
    assert person.ids() == list(range(9)), "what the RESTORE took away is there again"
    assert len({(x["partition"], x["offset"]) for x in flow.dead_letters()}) == 2


def test_nothing_is_lost_or_doubled_when_deployments_take_over_from_each_other(
    person: Person,
) -> None:
    flow = person.flow
    write(flow, "green.yml", green=True)
    (migration,) = typed_in("Migration: blue and green")
    _, of_a_deployment, _ = typed_in("Rollback")
    person.before_ingest = [
        lambda: flow.produce(*[good(n) for n in range(6)], BAD),
        lambda: flow.produce(good(6), BAD),
        lambda: flow.produce(good(7)),
    ]
    person.types(["tidemark ingest"])
    person.types(migration)
    assert person.ids(green=True) == list(range(7))
    assert person.ids() == list(range(6)), "blue was not running; what green alone has is not compared"
    person.types(of_a_deployment)
    assert person.ids() == list(range(8))
    assert "same" in person.output
    assert [x["value"] for x in flow.dead_letters()] == [BAD, BAD]
