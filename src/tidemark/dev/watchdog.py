"""Kills a child process when its parent is gone, however the parent ended. Run as a script.

The parent holds the other end of this script's standard input: an end of file there means that the
parent no longer lives. This works on Linux and macOS, and in threads, where a death signal does not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path


class Watchdog:
    """Holds `pid` to this process' life; `marker` is a part of its command line nobody else's has."""

    def __init__(self, pid: int, marker: str, *, remove: Path | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(pid), marker, str(remove or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        self._process.kill()
        self._process.communicate()


def command_line(pid: int) -> str:
    """The process' command line, empty if there is none."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:
            return ""
    shown = subprocess.run(["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, text=True)
    return shown.stdout


def _watch(pid: int, marker: str, remove: str) -> None:
    sys.stdin.buffer.read()
    # The number may belong to somebody else by now.
    if marker in command_line(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if remove:
        shutil.rmtree(remove, ignore_errors=True)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2], sys.argv[3])
