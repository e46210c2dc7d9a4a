"""A value that is made when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Lazy(Generic[Value]):
    """Calls `make` once, whichever thread needs the value first; again while it raises. Raises what `make` raises."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[Value] = []

    def __call__(self) -> Value:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]

    @property
    def made(self) -> Value | None:
        """The value, or None while it was not made."""
        return self._made[0] if self._made else None
