"""Kills a child process once its parent has ended, in whatever way. Runs as a script.

The parent holds the other end of this script's standard input: end of file means that the parent has ended.
This works on Linux and macOS, and in threads, where a death signal does not.
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
    """Kills `pid` when this process ends; `marker` is a part of its command line that no other has.

    `remove` is a folder that is deleted then.
    """

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
    """The command line of the process, empty if it does not exist."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:
            return ""
    shown = subprocess.run(["ps", "-ww", "-p", str(pid), "-o", "command="], capture_output=True, text=True)
    return shown.stdout


def _watch(pid: int, marker: str, remove: str) -> None:
    sys.stdin.buffer.read()
    # Another process may have the number by now.
    if marker in command_line(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if remove:
        shutil.rmtree(remove, ignore_errors=True)


if __name__ == "__main__":
    _watch(int(sys.argv[1]), sys.argv[2], sys.argv[3])
