"""`tidemark ingest` as a process of its own, watched from outside: its CPU, and what is visible when."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from json import loads
from pathlib import Path
from typing import Any, Self

import psutil
import yaml
from rivals import DDL

_LOOK_S = 0.02


@dataclass
class Writer:
    """One writer at a time over `streams` topics, each with a table of its own, in `folder`."""

    bootstrap: str
    folder: Path
    topics: list[str]
    processing: dict[str, Any]
    process: psutil.Popen | None = None
    _added: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        streams = {
            topic: {
                "kafka-topic": topic,
                "supported-formats": ["JSON"],
                "schema": {"ddl": DDL.replace("user_id STRING", "user_id STRING NOT NULL")},
                "destination": {"bucket": str(self.folder), "path": topic},
                "processing": self.processing,
            }
            for topic in self.topics
        }
        document = {
            "kafka": {
                "bootstrap-servers": self.bootstrap,
                "consumer": {"group-id": self.folder.name},
            },
            "connector": {"topics": streams},
            "checkpoint-root": str(self.folder / "checkpoints"),
            "state-dir": str(self.folder / "state"),
        }
        (self.folder / "tidemark.yml").write_text(yaml.safe_dump(document))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGKILL)

    @property
    def command(self) -> list[str]:
        return ["-m", "tidemark.cli.app", "ingest", "--config", str(self.folder / "tidemark.yml")]

    @property
    def log(self) -> Path:
        return self.folder / "writer.log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = psutil.Popen(
                [sys.executable, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )

    def end(self, number: int = signal.SIGTERM) -> None:
        """SIGKILL takes its JVM too."""
        if self.process is None:
            return
        family = self.family()
        for process in family if number == signal.SIGKILL else family[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        _, left = psutil.wait_procs(family, timeout=90)
        for process in left:
            process.kill()
        self.process = None

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def family(self) -> list[psutil.Process]:
        if self.process is None or not self.process.is_running():
            return []
        return [self.process, *self.process.children(recursive=True)]

    def cpu_seconds(self) -> float:
        return self._total(lambda process: sum(process.cpu_times()[:4]))

    def memory(self) -> int:
        return int(self._total(lambda process: process.memory_full_info().pss))

    def threads(self) -> int:
        return int(self._total(lambda process: process.num_threads()))

    def connections(self) -> int:
        """TCP connections to the broker."""
        port = int(self.bootstrap.rpartition(":")[2])
        return int(
            self._total(lambda process: sum(bool(c.raddr) and c.raddr.port == port for c in _tcp(process)))
        )

    def _total(self, of: Callable[[psutil.Process], float]) -> float:
        """Of the process and all that it started and that still live; seconds of CPU also of those that ended."""
        total = 0.0
        for process in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += of(process)
        return total

    def table(self, topic: str) -> Path:
        return self.folder / topic

    def rows(self, topic: str) -> int:
        """Rows that the table's log says were added. Each commit is read once."""
        log = self.table(topic) / "_delta_log"
        names = os.listdir(log) if log.is_dir() else []
        for commit in (log / name for name in names if name.endswith(".json") and name[:-5].isdigit()):
            if commit not in self._added:
                added = [loads(line).get("add") for line in commit.read_text().splitlines()]
                self._added[commit] = sum(loads(add["stats"])["numRecords"] for add in added if add)
        return sum(rows for commit, rows in self._added.items() if commit.parent == log)

    def until_landed(self, rows: int, *, topics: list[str] | None = None, seconds: float = 180) -> float:
        """Seconds until each table, or those of these topics, has so many rows."""
        waiting = set(self.topics if topics is None else topics)

        def reached() -> bool:
            waiting.difference_update([topic for topic in waiting if self.rows(topic) >= rows])
            return not waiting

        return self.until(reached, f"{rows} rows", seconds=seconds)

    def until(self, reached: Callable[[], bool], what: str, *, seconds: float = 180) -> float:
        """Seconds until it is so."""
        began = time.monotonic()
        while not reached():
            if self.process is not None and not self.process.is_running():
                raise RuntimeError(f"the writer ended before {what}: {self.log}")
            if time.monotonic() - began > seconds:
                raise TimeoutError(f"not within {seconds:.0f} s: {what}")
            time.sleep(_LOOK_S)
        return time.monotonic() - began


def _tcp(process: psutil.Process) -> list[Any]:
    """Established ones."""
    return [c for c in process.net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]


@dataclass
class BareWriter(Writer):
    """Spark's own stream with `from_json`, of one topic, as a process of its own."""

    @property
    def command(self) -> list[str]:
        (topic,) = self.topics
        name, batch = topic.removesuffix("_json"), str(self.processing["batch-size"])
        script = Path(__file__).with_name("steady.py")
        return [str(script), "bare", self.bootstrap, name, batch, str(self.folder)]

    def table(self, topic: str) -> Path:
        return self.folder / "table"
