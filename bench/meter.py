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
    """CPU seconds so far of this process and all that it started: Spark ends an idle Python worker after a minute,
    and its seconds are those of who waited for it then.
    """
    total = 0.0
    for process in _family(without):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def memory(without: frozenset[int]) -> int:
    """Bytes that are resident. Cheap; pages that processes share count for each."""
    return sum(_resident(process) for process in _family(without))


def family_memory(process: psutil.Process) -> int:
    """Bytes that a process and all that it started take: of pages that several share, to each its part."""
    total = 0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += each.memory_full_info().pss
    return total


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.NoSuchProcess):
        return int(process.memory_info().rss)
    return 0
