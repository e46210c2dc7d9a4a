"""A background thread that runs as long as a `with` block."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class BackgroundThread(ABC):
    """Runs `_work` in a daemon thread, which has to return soon after `_over` is set.

    The end of the block waits for it `ends_within` seconds at most: a process never hangs on it.
    """

    def __init__(self, thread_name: str, *, ends_within: float) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name=thread_name, daemon=True)
        self._ends_within = ends_within

    @abstractmethod
    def _work(self) -> None: ...

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(self._ends_within)
