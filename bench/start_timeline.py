"""A start, phase by phase: Tidemark and a bare Spark stream, each from the start of its process to its first record.

Both write Spark's own lines at INFO, whose arrival is the time of most phases: this costs both alike, some tenths
of a second. Python's imports have ended when the process starts its JVM; the first record is there when the table's
log has it. Both have the same settings of Spark and the same jars.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from landing import Bench, Found
from samples import DDL
from writer import Writer

from tidemark.platform.jvm.jars import jar_paths
from tidemark.platform.jvm.java import find_java
from tidemark.platform.spark_conf import local_conf

IMPORTS, LANDED = "imports, configuration", "first batch landed"
LINES = {
    "JVM": re.compile(r"Running Spark version"),
    "session": re.compile(r"Initialized BlockManager"),
    "table's log, topic": re.compile(r"stream starts"),
    "query started": re.compile(r"Starting \[id = "),
    "first batch's offsets": re.compile(r"Committed offsets for batch 0"),
    "first batch planned": re.compile(r"Got job|Starting job"),
}
"""A phase has ended when such a line arrives, after those of the phases before it."""
PHASES = (IMPORTS, *LINES, LANDED)
_RECORDS = 1_000
_LOOK_S = 0.005
_LONGEST_S = 180.0


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
        conf["spark.driver.extraJavaOptions"] += " -Dtidemark.spark.level=info"
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
            if time.monotonic() - began > _LONGEST_S or not self.writer.family():
                raise RuntimeError(self.writer.log.read_text()[-3000:])
            time.sleep(_LOOK_S)
        return self.at

    def _look(self, now: float) -> None:
        if IMPORTS not in self.at and any(map(_is_spark, self.writer.family()[1:])):
            self.at[IMPORTS] = now
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


def _is_spark(process: psutil.Process) -> bool:
    try:
        return "spark-submit" in (line := " ".join(process.cmdline())) or "SparkSubmit" in line
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def start_timeline(bench: Bench) -> dict[str, Found]:
    """Medians of the seconds that each phase takes, in turn, after a start of each that is not counted."""
    bench.stop_spark()
    os.environ.setdefault("JAVA_HOME", str(find_java().home))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ways: dict[str, type[Writer]] = {"bare_s": PlainWriter, "tidemark_s": Writer}
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for number in range(bench.sizes.starts + 1):
        for way, kind in ways.items():
            topic = bench.topic()
            bench.send(topic, _RECORDS)
            folder = bench.folder / f"start-{way}-{number}"
            with kind(bench.bootstrap, folder, [topic], {"batch-size": 1}, {"spark-level": "INFO"}) as writer:
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
