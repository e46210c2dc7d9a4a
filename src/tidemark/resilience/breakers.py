"""The breakers of a process, one per destination, kept in one local folder."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidemark.config.sections import BreakerSettings
from tidemark.config.settings import Settings
from tidemark.contract.errors import UsageError
from tidemark.resilience.breaker import Breaker, Listener
from tidemark.resilience.breaker_state import Remembered, StateFile, remembered_in
from tidemark.resilience.classification import Classifier

FOLDER = "breakers"


class Breakers:
    """Gives every caller of a name the same breaker. Names: `{stream}/{destination}`, e.g. `orders/table`."""

    def __init__(
        self,
        folder: Path | None = None,
        settings: BreakerSettings | None = None,
        *,
        classifier: Classifier | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._folder, self._settings = folder, settings
        self._classifier, self._listeners = classifier, tuple(listeners)
        self._lock = threading.Lock()
        self._breakers: dict[str, Breaker] = {}

    def __getstate__(self) -> dict[str, Any]:
        # In another process their state comes from their files, and there are no listeners.
        return {"folder": self._folder, "settings": self._settings, "classifier": self._classifier}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._folder, self._settings = state["folder"], state["settings"]
        self._classifier, self._listeners = state["classifier"], ()
        self._lock = threading.Lock()
        self._breakers = {}

    def heard_by(self, *listeners: Listener) -> Breakers:
        """The same breakers, whose changes `listeners` get too."""
        heard = (*self._listeners, *listeners)
        return Breakers(self._folder, self._settings, classifier=self._classifier, listeners=heard)

    @classmethod
    def of(cls, settings: Settings, *, listeners: Sequence[Listener] = ()) -> Breakers:
        return cls(settings.state_dir / FOLDER, settings.breaker, listeners=listeners)

    def get(self, name: str, *, classifier: Classifier | None = None) -> Breaker:
        with self._lock:
            if name not in self._breakers:
                self._breakers[name] = Breaker(
                    name,
                    self._settings,
                    classifier=classifier or self._classifier,
                    file=StateFile(self._folder, name) if self._folder else None,
                    listeners=self._listeners,
                )
            return self._breakers[name]

    def snapshots(self) -> list[Remembered]:
        """The breakers of this process and those that only have a file, by name."""
        with self._lock:
            live = {name: breaker.snapshot() for name, breaker in self._breakers.items()}
        kept = {found.name: found for found in remembered_in(self._folder)} if self._folder else {}
        return [entry for _, entry in sorted({**kept, **live}.items())]

    def reset(self, name: str | None = None) -> list[str]:
        """Closes that breaker, or all, here and in every process that shares the folder; returns their names.

        Raises UsageError if no breaker has that name.
        """
        known = [found.name for found in self.snapshots()]
        if name is not None and name not in known:
            raise UsageError(
                f"no breaker is named {name}",
                f"there are: {', '.join(known)}" if known else "there are none yet",
            )
        chosen = known if name is None else [name]
        for each in chosen:
            self.get(each).reset()
        return chosen
