"""The soak's writer: `tidemark ingest` that runs on, as a process of its own that is started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tidemark.dev.demo.configuration import DemoFiles
from tidemark.dev.demo.writer import end_group, writer_environment
from tidemark.dev.watchdog import Watchdog

_STOP_BOUND_S = 150.0
"""The product's own bound for a graceful stop is 120 s; the rest is a JVM that ends."""


class SoakWriter:
    """One writer at a time: a `start` ends the one before as a crash would.

    Each life writes a log of its own. `killed` says whether we ended the last one.
    """

    def __init__(self, files: DemoFiles, *, configuration: Path | None = None, name: str = "writer") -> None:
        self._files = files
        self._configuration = configuration or files.configuration
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None
        self.lives = 0
        self.killed = False

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_file(self) -> Path:
        return self._files.folder / f"{self._name}-{self.lives}.log"

    @property
    def exit_code(self) -> int | None:
        """Of the last life, negative for a signal; None while it lives."""
        return None if self._process is None else self._process.poll()

    def start(self, *options: str, faults: str = "") -> None:
        """`options` go to `tidemark ingest`, `faults` names fault points (`pipeline/fault_points.py`)."""
        self.kill()
        self.lives += 1
        self.killed = False
        command = ["ingest", "--config", str(self._configuration), *options]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidemark.cli.app", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=writer_environment(faults),
                cwd=self._files.folder,
                start_new_session=True,
            )
        self._watchdog = Watchdog(self._process.pid, str(self._configuration))

    def kill(self) -> None:
        """As a machine that lost power: its JVM goes too."""
        if self._process is not None:
            self.killed = self.alive
            end_group(self._process)
        self._dismiss()

    def freeze(self, seconds: float) -> None:
        """Stops it and its JVM in their tracks (SIGSTOP) for so long, as a machine that swaps does."""
        assert self._process is not None
        for number, wait in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            time.sleep(wait)

    def stop(self) -> int:
        """SIGTERM. Its exit code; -9 if it did not end within the bound and had to be killed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self.wait(_STOP_BOUND_S)
        self.kill()
        return -signal.SIGKILL if code is None else code

    def wait(self, seconds: float) -> int | None:
        """The exit code once it ended by itself, None if it did not in time."""
        deadline = time.monotonic() + seconds
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.exit_code

    def wait_for(self, said: str, seconds: float) -> bool:
        """Whether its log says so within that time; false also where it ends before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if said in self.log_file.read_text(errors="replace"):
                return True
            if not self.alive:
                return False
            time.sleep(0.5)
        return False

    def last_words(self) -> str:
        """Why the last life ended, as its log says."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        told = [line for line in lines if "stream stopped" in line]
        return (told or lines or ["it said nothing"])[-1].strip()[:500]

    def _dismiss(self) -> None:
        # A JVM may outlive the Python process that was killed at a fault point.
        if self._process is not None and self._process.poll() is not None:
            end_group(self._process)
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None


def spare_configuration(files: DemoFiles, *, name: str) -> Path:
    """The same streams for a writer elsewhere: with a checkpoint and a state folder of its own."""
    text = files.configuration.read_text()
    for folder in ("checkpoints", "state"):
        text = text.replace(f": {folder}{os.linesep}", f": {folder}-{name}{os.linesep}")
    file = files.folder / f"{name}.yml"
    file.write_text(text)
    return file
