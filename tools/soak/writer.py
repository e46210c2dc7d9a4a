"""The soak's writer: `tidemark ingest` as a separate process that is started again and again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from tidemark.dev.demo.configuration import DemoFiles
from tidemark.dev.demo.writer import end_group, start_writer
from tidemark.dev.watchdog import Watchdog

_STOP_BOUND_S = 150.0
"""The product's own bound for a graceful stop is 120 s; the rest is a JVM that ends."""


class SoakWriter:
    """One writer at a time: `start` kills the previous one.

    Each run writes a separate log. `killed` is true if the soak ended the last one.
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
        """The exit code of the last run, negative for a signal; None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self, *options: str, faults: str = "") -> None:
        """`options` go to `tidemark ingest`; `faults` are failpoints (`tidemark.contract.failpoints`)."""
        self.kill()
        self.lives += 1
        self.killed = False
        self._process, self._watchdog = start_writer(
            self._configuration, *options, log_file=self.log_file, faults=faults
        )

    def kill(self) -> None:
        """Kills it and its JVM, as a machine that loses power does."""
        if self._process is not None:
            self.killed = self.alive
            end_group(self._process)
        self._dismiss()

    def freeze(self, seconds: float) -> None:
        """Freezes it and its JVM (SIGSTOP) for so long, as a machine that swaps does."""
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
        """The exit code if it ended by itself in time, else None."""
        deadline = time.monotonic() + seconds
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.exit_code

    def wait_for(self, text: str, seconds: float) -> bool:
        """Whether its log contains the text within that time; false also if it ends before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if text in self.log_file.read_text(errors="replace"):
                return True
            if not self.alive:
                return False
            time.sleep(0.5)
        return False

    def last_words(self) -> str:
        """Why the last run ended, from its log."""
        lines = self.log_file.read_text(errors="replace").splitlines()
        reasons = [line for line in lines if "stream stopped" in line]
        return (reasons or lines or ["no output"])[-1].strip()[:500]

    def _dismiss(self) -> None:
        # A JVM may outlive the Python process that was killed at a failpoint.
        if self._process is not None and self._process.poll() is not None:
            end_group(self._process)
        if self._watchdog is not None:
            self._watchdog.dismiss()
            self._watchdog = None


def spare_configuration(files: DemoFiles, *, name: str) -> Path:
    """The same streams with another checkpoint and state folder, for a writer elsewhere."""
    text = files.configuration.read_text()
    for folder in ("checkpoints", "state"):
        text = text.replace(f": {folder}{os.linesep}", f": {folder}-{name}{os.linesep}")
    file = files.folder / f"{name}.yml"
    file.write_text(text)
    return file
