"""The state of a breaker, and the file that keeps it across a restart of the process.

The file lies in the local state folder, which does not depend on the store or the broker that the
breaker guards. The time in it is wall time, since a monotonic clock means nothing to another process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)


class State(StrEnum):
    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True)
class Remembered:
    """A breaker at one moment. `opened_at`: Unix seconds. `resets`: how often a person closed it."""

    name: str
    state: State = State.CLOSED
    failures: int = 0
    successes: int = 0
    opened_at: float | None = None
    resets: int = 0


class StateFile:
    """One breaker's file. Written whole or not at all; a file that cannot be read counts as CLOSED."""

    def __init__(self, folder: Path, name: str) -> None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        readable = re.sub(r"[^A-Za-z0-9.-]+", "_", name)[:60]
        self.name = name
        self.path = folder / f"{readable}-{digest}.json"

    def load(self) -> Remembered:
        try:
            return _parsed(self.path.read_text("utf-8"), self.name)
        except FileNotFoundError:
            return Remembered(self.name)
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning(
                "breaker state is damaged, taken as CLOSED",
                breaker=self.name,
                file=str(self.path),
                error=repr(error),
            )
            return Remembered(self.name)

    def save(self, remembered: Remembered) -> None:
        """Best effort: a breaker that cannot be kept still works in this process."""
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8") as file:
                json.dump(asdict(remembered), file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as error:
            log.warning(
                "breaker state cannot be kept", breaker=self.name, file=str(self.path), error=repr(error)
            )

    def reset(self) -> Remembered:
        """CLOSED, also for a running process, which looks at its file while it is open."""
        remembered = Remembered(self.name, resets=self.load().resets + 1)
        self.save(remembered)
        return remembered


def remembered_in(folder: Path) -> Iterator[Remembered]:
    """Every breaker that has a readable file there, by name: for status and health."""
    found = []
    for path in folder.glob("*.json"):
        try:
            found.append(_parsed(path.read_text("utf-8"), None))
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("breaker state is damaged", file=str(path), error=repr(error))
    yield from sorted(found, key=lambda remembered: remembered.name)


def _parsed(text: str, name: str | None) -> Remembered:
    value = json.loads(text)
    opened_at = value["opened_at"]
    if name is not None and value["name"] != name:
        raise ValueError(f"it is the file of {value['name']!r}")
    return Remembered(
        str(value["name"]),
        State(value["state"]),
        max(0, int(value["failures"])),
        max(0, int(value["successes"])),
        None if opened_at is None else float(opened_at),
        int(value["resets"]),
    )
