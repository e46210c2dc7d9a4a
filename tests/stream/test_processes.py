"""Whole processes: two writers at once, a writer killed at every step, and starts that must be refused."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path

import pytest
import yaml
from tests.stream_under_test import BAD, DDL, StreamUnderTest, good

from tidemark.cli.app import main
from tidemark.config.stream import Mode
from tidemark.contract import records
from tidemark.contract.failpoints import POINTS
from tidemark.dead_letters.dlq_table.query import dead_letter_target, keep_dead_letters
from tidemark.dead_letters.dlq_table.table import DeadLetterTable

Make = Callable[..., StreamUnderTest]
# Whole JVMs start here, on a machine that may be busy.
pytestmark = pytest.mark.timeout(900)

ENVIRONMENT = {
    **os.environ,
    "TIDEMARK_DRIVER_MEMORY": "1g",
    # A process that runs for seconds spends more on the second compiler than it gets back.
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
}

# Each mode after each other one.
MODES = ["kafka-native", "fingerprint", "kafka-native", "merge", "fingerprint", "merge", "kafka-native"]


def _config(events: StreamUnderTest, *, mode: str = "kafka-native") -> Path:
    file = events.folder / "tidemark.yml"
    file.write_text(
        yaml.safe_dump(
            {
                "kafka": {
                    "bootstrap-servers": events.broker.bootstrap,
                    "consumer": {"group-id": f"group-{events.topic}"},
                },
                "connector": {
                    "topics": {
                        "events": {
                            "kafka-topic": events.topic,
                            "schema": {"ddl": DDL},
                            "destination": {"bucket": str(events.folder), "path": "lake/events"},
                            "processing": {"batch-size": 1, "flush-interval": 1, "max-batch-size": 40},
                            "idempotency": {"mode": mode},
                        }
                    }
                },
                "checkpoint-root": str(events.folder / "checkpoints"),
                "state-dir": str(events.folder / "state"),
            }
        )
    )
    return file


def _ingest(config: Path, *options: str, faults: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidemark.cli.app", "ingest", "--config", str(config), *options],
        env={**ENVIRONMENT, "TIDEMARK_FAULTS": faults},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.guarantee(
    "bad day: two writers",
    "fault: A second writer runs, on one machine or on S3; a frozen one wakes up after another took over → "
    "One stops, fenced; nothing doubles",
)
def test_one_of_two_writers_stops_and_nothing_doubles_when_both_run_on_one_stream(stream: Make) -> None:
    events = stream()
    events.produce(good(0))
    config = _config(events)
    stopped: list[subprocess.Popen[str]] = []
    writers = [_ingest(config), _ingest(config)]
    try:
        number = 1
        deadline = time.monotonic() + 300
        while all(w.poll() is None for w in writers) and time.monotonic() < deadline:
            events.produce(*[good(i) for i in range(number, number + 5)], BAD)
            number += 5
            time.sleep(1)
        stopped = [w for w in writers if w.poll() is not None]
        assert len(stopped) == 1, "one of the two must stop"
        out, _ = stopped[0].communicate(timeout=120)
        assert stopped[0].returncode == 1
        assert "another writer" in out or "CONCURRENT_STREAM_LOG_UPDATE" in out or "TIDEMARK_FENCED" in out, (
            out[-3000:]
        )
    finally:
        for writer in writers:
            # As service managers do: to every process of it, the JVM too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(writer.pid, signal.SIGTERM)
        left = {writer.communicate(timeout=180)[0][-3000:] for writer in writers if writer not in stopped}
        assert [w.returncode for w in writers if w not in stopped] == [0], left
    events.land()
    assert events.ids() == list(range(number))
    assert len(events.accounted()) == number + (number - 1) // 5


@pytest.mark.guarantee(
    "case: checkpoint-03",
    "case: dlq-04",
    "fault tolerance: compute fails while consuming or writing",
    "bad day: SIGKILL in the batch",
    "bad day: SIGKILL in the DLQ stream",
    "fault: The writer is killed, at each step of a batch and of keeping dead letters → "
    "The batch runs again; nothing is lost or doubled",
)
def test_nothing_is_lost_or_doubled_when_the_writer_is_killed_at_every_step(stream: Make) -> None:
    """Each start in another mode than the one before, so that a kill lies between any two of them. And its
    dead letters are kept once, when what keeps them is killed at every step of that.
    """
    assert set(pairwise(MODES)) == set(permutations((m.value for m in Mode), 2))
    events = stream(partitions=2)
    events.produce(*[good(i) if i % 10 else BAD for i in range(200)])
    points = [p for p in POINTS if not p.startswith(("read-log", "letters-", "replay-"))]
    for mode, point in zip(MODES, points, strict=True):
        # The second batch of one start: the others end in the first one they see.
        times = 2 if point == "after-append" else 1
        config = _config(events, mode=mode)
        _killed(["ingest", "--available-now"], config, f"{point}=kill@{times}")
    used = {f.name.split("-0")[0] for f in (events.folder / "checkpoints/events").iterdir()}
    assert used == set(MODES)
    events.land()
    assert events.ids() == [i for i in range(200) if i % 10]
    assert len(events.accounted()) == 200
    for point in (p for p in POINTS if p.startswith("letters-")):
        _killed(["dead-letters", "stream", "--stream", "events", "--available-now"], config, f"{point}=kill")
    target = dead_letter_target(events.spark, events.settings(), "events", run="after the kills")
    keep_dead_letters(events.spark, events.settings(), target)
    kept = DeadLetterTable(events.table).dead_letters(events.spark)
    assert sorted((r[records.PARTITION], r[records.OFFSET]) for r in kept.collect()) == sorted(
        {(int(x["partition"]), int(x["offset"])) for x in events.dead_letters()}
    )


def _killed(command: list[str], config: Path, faults: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidemark.cli.app", *command, "--config", str(config)],
        env={**ENVIRONMENT, "TIDEMARK_FAULTS": faults},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, (faults, done.stdout[-2000:], done.stderr[-2000:])


@pytest.mark.parametrize(
    ("break_it", "code", "message"),
    [
        ("no topic", 1, "there is no topic"),
        ("wrong address", 1, "is the address right"),
        ("file in the way", 1, "is a file, not the folder of a table"),
        ("no schema file", 2, "missing.ddl"),
    ],
)
def test_one_clear_message_and_nothing_half_made_when_the_start_is_impossible(
    stream: Make, capfd: pytest.CaptureFixture[str], break_it: str, code: int, message: str
) -> None:
    events = stream()
    config = _config(events)
    text = yaml.safe_load(config.read_text())
    topics = text["connector"]["topics"]["events"]
    topics["processing"] = {"max-retries": 0}
    if break_it == "no topic":
        topics["kafka-topic"] = "nobody-made-this"
    elif break_it == "wrong address":
        text["kafka"]["bootstrap-servers"] = "127.0.0.1:1"
    elif break_it == "file in the way":
        (events.folder / "lake").mkdir()
        (events.folder / "lake/events").write_text("not a folder")
    else:
        topics["schema"] = {"file": "missing.ddl"}
    config.write_text(yaml.safe_dump(text))
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        ended = main(["ingest", "--config", str(config), "--available-now"])
    finally:
        for number, answer in kept.items():
            signal.signal(number, answer)
    out = "".join(capfd.readouterr())
    assert message in out, out[-3000:]
    assert ended == code
    assert "Traceback" not in out
    assert not (events.folder / "lake/events/_delta_log").exists()


def test_status_prints_json_for_programs_when_asked(stream: Make) -> None:
    events = stream()
    events.produce(good(1), BAD)
    events.land()
    done = subprocess.run(
        [sys.executable, "-m", "tidemark.cli.app", "status", "--config", str(_config(events)), "--json"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    (found,) = json.loads(done.stdout)
    assert found["partitions"] == [{"partition": 0, "mark": 2, "end_offset": 2, "lag": 0}]
    assert found["last_commit_version"] == events.state().newest_version
