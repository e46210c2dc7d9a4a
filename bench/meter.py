"""What a step takes: seconds, CPU seconds and memory of this process and all that it started."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psutil

_EVERY_S = 0.2


@dataclass
class Taken:
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


@contextmanager
def metered(*, without: frozenset[int] = frozenset()) -> Iterator[Taken]:
    """`without`: processes that are not part of what is measured, the broker among them."""
    taken, ended = Taken(), threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            taken.peak_bytes = max(taken.peak_bytes, memory(without))

    watcher = threading.Thread(target=watch, daemon=True)
    began, cpu = time.monotonic(), cpu_seconds(without)
    watcher.start()
    try:
        yield taken
    finally:
        taken.seconds, taken.cpu_seconds = time.monotonic() - began, cpu_seconds(without) - cpu
        ended.set()
        watcher.join()


def _family(without: frozenset[int]) -> list[psutil.Process]:
    me = psutil.Process()
    return [p for p in (me, *me.children(recursive=True)) if p.pid not in without]


def cpu_seconds(without: frozenset[int]) -> float:
    """CPU seconds so far of this process and all that it started and that still live."""
    total = 0.0
    for process in _family(without):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def memory(without: frozenset[int]) -> int:
    return _resident(_family(without))


def family_memory(process: psutil.Process) -> int:
    """Bytes that a process and all that it started have resident."""
    return _resident([process, *process.children(recursive=True)])


def _resident(family: list[psutil.Process]) -> int:
    total = 0
    for process in family:
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total
