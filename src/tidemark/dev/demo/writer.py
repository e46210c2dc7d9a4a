"""The demo's writer: `tidemark ingest` as a separate process, so that it can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemark.contract.errors import TidemarkError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.dev.demo.configuration import DemoFiles
from tidemark.dev.watchdog import Watchdog
from tidemark.platform.jvm.jars import tidemark_home

_LOOK_EVERY_S = 0.2
_LONGEST_RUN_S = 900.0
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""A run of half a minute loses time by the second compiler. The first one alone has room for 48 MB of code, and
a JVM with a full code cache can end within minutes."""


class WriterFailed(TidemarkError):
    condition = "TIDEMARK_DEMO_WRITER"


@dataclass(frozen=True)
class WriterRun:
    """One run of the writer: its commits and landed rows, and whether it was killed."""

    number: int
    killed: bool
    commits: int
    landed: int
    seconds: float


class CommitWatch:
    """Counts a table's ledger commits and their rows as they appear in the Delta log."""

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._next = 0
        self.commits = 0
        self.with_rows = 0
        self.landed = 0

    def look(self) -> bool:
        """Whether there was a new version. `landed` counts rows by the log alone, not by a writer's report."""
        before = self._next
        for commit in self._new():
            own = LedgerCommit.from_json(commit.get("userMetadata"))
            rows = int(commit.get("operationMetrics", {}).get("numOutputRows", 0))
            if own is not None:
                self.commits += 1
                self.with_rows += rows > 0
                self.landed += rows
        return self._next > before

    def _new(self) -> Iterator[dict[str, Any]]:
        while (file := self._log / f"{self._next:020d}.json").exists():
            try:
                actions = [json.loads(line) for line in file.read_text().splitlines()]
            except ValueError:  # incomplete: the next call reads it
                return
            self._next += 1
            yield from (action["commitInfo"] for action in actions if "commitInfo" in action)


def run_writer(
    files: DemoFiles,
    number: int,
    watch: CommitWatch,
    *,
    faults: str = "",
    on_commit: Callable[[], None],
) -> WriterRun:
    """Runs the writer until it has read all records, or until the kill that `faults` describes.

    A killed writer's JVM is killed too, as on a machine that loses power. Raises WriterFailed with the end
    of its log where it ends in any other way.
    """
    log_file = files.writer_log(number)
    began, commits, landed = time.monotonic(), watch.commits, watch.landed
    process, watchdog = start_writer(files.configuration, "--available-now", log_file=log_file, faults=faults)
    try:
        while process.poll() is None:
            if watch.look():
                on_commit()
            if time.monotonic() - began > _LONGEST_RUN_S:
                raise WriterFailed(f"the writer did not end within {_LONGEST_RUN_S:.0f} s", f"see {log_file}")
            time.sleep(_LOOK_EVERY_S)
    finally:
        end_group(process)
        watchdog.dismiss()
    if watch.look():
        on_commit()
    killed = process.returncode == -signal.SIGKILL
    if not killed and process.returncode != 0:
        raise WriterFailed(
            f"the writer ended with exit code {process.returncode}:\n{tail(log_file)}",
            f"its whole log is {log_file}",
        )
    return WriterRun(number, killed, watch.commits - commits, watch.landed - landed, time.monotonic() - began)


def start_writer(
    configuration: Path, *options: str, log_file: Path, faults: str = ""
) -> tuple[subprocess.Popen[bytes], Watchdog]:
    """`tidemark ingest` in the folder of its configuration, which ends with this process at the latest."""
    command = ["ingest", "--config", str(configuration), *options]
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidemark.cli.app", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_writer_environment(faults),
            cwd=configuration.parent,
            start_new_session=True,
        )
    return process, Watchdog(process.pid, str(configuration))


def _writer_environment(faults: str) -> dict[str, str]:
    """The variables of this process, without the one that would change the writer's configuration."""
    kept = {name: value for name, value in os.environ.items() if name != "TIDEMARK_TARGET"}
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {_QUICK_START}".strip()
    return {
        **kept,
        "TIDEMARK_FAULTS": faults,
        "TIDEMARK_HOME": str(tidemark_home()),
        "JAVA_TOOL_OPTIONS": java,
    }


def end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def tail(log_file: Path, lines: int = 25) -> str:
    """The last lines of a log."""
    return "\n".join(log_file.read_text(errors="replace").splitlines()[-lines:])
