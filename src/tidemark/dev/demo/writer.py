"""The demo's writer: `tidemark ingest` as a process of its own, so that it can be killed like one."""

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
"""A run of half a minute spends more on the second compiler than it gets back. The first one alone has room
for 48 MB of code, and a JVM whose code cache is full can end within minutes."""


class WriterFailed(TidemarkError):
    condition = "TIDEMARK_DEMO_WRITER"


@dataclass(frozen=True)
class WriterRun:
    """How one run of the writer ended: after how many of its commits, and whether it was killed."""

    number: int
    killed: bool
    commits: int
    landed: int
    seconds: float


class CommitWatch:
    """Reads a table's ledger commits as they appear: what landed is what the log says, whoever wrote it."""

    def __init__(self, table: Path) -> None:
        self._log = table / "_delta_log"
        self._next = 0
        self.commits = 0
        self.landed = 0

    def look(self) -> bool:
        """Whether there was something new. `landed` counts the rows, so it needs no trust in any writer."""
        before = self._next
        for commit in self._new():
            own = LedgerCommit.from_json(commit.get("userMetadata"))
            rows = int(commit.get("operationMetrics", {}).get("numOutputRows", 0))
            if own is not None:
                self.commits += 1
                self.landed += rows
        return self._next > before

    def _new(self) -> Iterator[dict[str, Any]]:
        while (file := self._log / f"{self._next:020d}.json").exists():
            try:
                actions = [json.loads(line) for line in file.read_text().splitlines()]
            except ValueError:  # half written: whole at the next look
                return
            self._next += 1
            yield from (action["commitInfo"] for action in actions if "commitInfo" in action)


def run_writer(
    files: DemoFiles,
    number: int,
    watch: CommitWatch,
    *,
    faults: str = "",
    on_commit: Callable[[CommitWatch], None],
) -> WriterRun:
    """Runs the writer until it has read all there is, or until the kill that `faults` asks for.

    A killed writer's JVM goes with it, as on a machine that lost power. Raises WriterFailed with the end
    of its log where it ends in any other way.
    """
    log_file = files.writer_log(number)
    command = ["ingest", "--config", str(files.configuration), "--available-now"]
    began, commits, landed = time.monotonic(), watch.commits, watch.landed
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidemark.cli.app", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=writer_environment(faults),
            cwd=files.folder,
            start_new_session=True,
        )
    watchdog = Watchdog(process.pid, str(files.configuration))
    try:
        while process.poll() is None:
            if watch.look():
                on_commit(watch)
            if time.monotonic() - began > _LONGEST_RUN_S:
                raise WriterFailed(f"the writer did not end within {_LONGEST_RUN_S:.0f} s", f"see {log_file}")
            time.sleep(_LOOK_EVERY_S)
    finally:
        end_group(process)
        watchdog.dismiss()
    if watch.look():
        on_commit(watch)
    killed = process.returncode == -signal.SIGKILL
    if not killed and process.returncode != 0:
        raise WriterFailed(
            f"the writer ended with exit code {process.returncode}:\n{_tail(log_file)}",
            f"its whole log is {log_file}",
        )
    return WriterRun(number, killed, watch.commits - commits, watch.landed - landed, time.monotonic() - began)


def writer_environment(faults: str) -> dict[str, str]:
    """Our own process' variables, but for what would lead the writer away from the demo's configuration."""
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


def _tail(log_file: Path, lines: int = 25) -> str:
    return "\n".join(log_file.read_text(errors="replace").splitlines()[-lines:])
