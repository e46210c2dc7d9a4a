"""A start, phase by phase: Tidemark and a bare Spark stream, each from the start of its process to its first record.

Both report their first three phases. From then on Spark's own lines are at INFO, and their arrival is the time of a
phase: this costs both alike, some tenths of a second. The first batch is planned when Spark starts its first job after
the batch's offsets are known; the first record is there when the table's log has it. Both have the same
settings of Spark and the same jars.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from landing import Bench, Found
from samples import DDL
from writer import Writer

from tidemark.platform.jvm.jars import jar_paths
from tidemark.platform.jvm.java import find_java
from tidemark.platform.spark_conf import local_conf

LANDED = "first batch landed"
LINES = {
    "imports, configuration": re.compile(r"^imports are done"),
    "JVM": re.compile(r"^JVM runs"),
    "session": re.compile(r"^session is there"),
    "table created": re.compile(r"Committed delta #0 "),
    "marks set": re.compile(r"Committed delta #1 "),
    "table's log, topic": re.compile(r"stream starts"),
    "query started": re.compile(r"to store the query checkpoint"),
    "first batch's offsets": re.compile(r"Committed offsets for batch 0"),
    "first batch planned": re.compile(r"Starting job"),
}
"""A phase has ended when such a line arrives, after those of the phases before it. A bare stream sets no marks, and
its first batch creates the table."""
PHASES = (*LINES, LANDED)
_RECORDS = 1_000
_LOOK_S = 0.02
_LONGEST_S = 180.0


@dataclass
class ReportingWriter(Writer):
    """Tidemark, which reports its first phases."""

    @property
    def command(self) -> list[str]:
        return [str(Path(__file__).with_name("start_ingest.py")), str(self.folder / "tidemark.yml")]


@dataclass
class PlainWriter(Writer):
    """A bare stream of one topic that imports nothing of Tidemark."""

    @property
    def command(self) -> list[str]:
        (topic,) = self.topics
        script = Path(__file__).with_name("bare_start.py")
        return [str(script), self.bootstrap, topic, str(self.folder), str(self._conf()), DDL]

    def _conf(self) -> Path:
        conf = {"spark.master": "local[*]", **local_conf(jar_paths("spark"))}
        path = self.folder / "spark.json"
        path.write_text(json.dumps(conf))
        return path


@dataclass
class Timeline:
    """Seconds from the start of a writer's process to the end of each phase. A phase may be missing."""

    writer: Writer
    at: dict[str, float] = field(default_factory=dict)
    _read: int = 0

    def watch(self) -> dict[str, float]:
        """Start the writer, and return when its first record is there."""
        began = time.monotonic()
        self.writer.start()
        while LANDED not in self.at:
            self._look(time.monotonic() - began)
            if time.monotonic() - began > _LONGEST_S or self.writer.ended():
                raise RuntimeError(self.writer.log.read_text()[-3000:])
            time.sleep(_LOOK_S)
        return self.at

    def _look(self, now: float) -> None:
        for line in self._new_lines():
            waiting = list(LINES)[self._passed() :]
            reached = next((phase for phase in waiting if LINES[phase].search(line)), None)
            if reached is not None and (reached != waiting[-1] or len(waiting) == 1):
                self.at[reached] = now
        if self.writer.rows(self.writer.topics[0]):
            self.at[LANDED] = now

    def _passed(self) -> int:
        """How many of the phases of LINES have ended, or were left out."""
        return max((list(LINES).index(phase) + 1 for phase in self.at if phase in LINES), default=0)

    def _new_lines(self) -> list[str]:
        with self.writer.log.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace").splitlines()


def start_timeline(bench: Bench) -> dict[str, Found]:
    """Medians of the seconds that each phase takes, in turn, after a start of each that is not counted."""
    bench.stop_spark()
    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ways: dict[str, type[Writer]] = {"bare_s": PlainWriter, "tidemark_s": ReportingWriter}
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for number in range(bench.sizes.starts + 1):
        for way, kind in ways.items():
            topic = bench.topic()
            bench.send(topic, _RECORDS)
            folder = bench.folder / f"start-{way}-{number}"
            with kind(bench.bootstrap, folder, [topic], {"batch-size": 1}) as writer:
                at = Timeline(writer).watch()
                if number:
                    rounds[way].append(_seconds(at))
    return {phase: _figures(rounds, phase) for phase in (*PHASES, "in all")}


def _seconds(at: dict[str, float]) -> dict[str, float]:
    """Of each phase, from the end of the one before it."""
    found, before = {}, 0.0
    for phase in PHASES:
        if phase in at:
            found[phase], before = at[phase] - before, at[phase]
    return {**found, "in all": at[LANDED]}


def _figures(rounds: dict[str, list[dict[str, float]]], phase: str) -> Found:
    found = {
        way: statistics.median(each)
        for way, taken in rounds.items()
        if (each := [seconds[phase] for seconds in taken if phase in seconds])
    }
    if len(found) == 2:
        found["difference_s"] = found["tidemark_s"] - found["bare_s"]
        found["ratio"] = found["tidemark_s"] / found["bare_s"]
    return found
