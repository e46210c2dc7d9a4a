"""Dead letters in the model of the ledger: a topic, and a table of events that hosts with clocks write."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.undone import Undone, is_undone

Coordinate = tuple[int, int]


@dataclass(frozen=True)
class Status:
    """An event, as `STATUS_DDL` has it. A dead letter without one is new."""

    sequence: int = 0
    status: DeadLetterStatus = DeadLetterStatus.NEW
    at: float = 0.0
    table_version: int | None = None


@dataclass
class DeadLetters:
    """`topic` holds what was published, in order; of it `kept` are in the table."""

    rng: random.Random
    by_sequence: bool = True
    topic: list[Coordinate] = field(default_factory=list)
    events: dict[Coordinate, list[Status]] = field(default_factory=dict)
    now: float = 0.0
    _kept: int = 0

    def keep(self) -> None:
        """As `DeadLetterTable.merge`: what is there stays as it is."""
        for coordinate in self.topic[self._kept :]:
            self.events.setdefault(coordinate, [])
        self._kept = len(self.topic)

    def newest(self, coordinate: Coordinate) -> Status:
        """As `DeadLetterTable.letters`."""

        def order(e: Status) -> tuple[object, ...]:
            return (
                (e.sequence, e.status is not DeadLetterStatus.RESOLVED, e.at) if self.by_sequence else (e.at,)
            )

        return max(self.events[coordinate], key=order, default=Status())

    def is_open(self, coordinate: Coordinate) -> bool:
        return coordinate in self.events and self.newest(coordinate).status is not DeadLetterStatus.RESOLVED

    def note(
        self,
        seen: dict[Coordinate, Status],
        status: DeadLetterStatus,
        *,
        ahead: float = 0.0,
        table_version: int | None = None,
    ) -> None:
        """As `event` and `DeadLetterTable.note`; the host's clock may be ahead."""
        self.now += 1.0
        for coordinate, before in seen.items():
            version = before.table_version if table_version is None else table_version
            event = Status(before.sequence + 1, status, self.now + ahead, version)
            self.events[coordinate].append(event)

    def reopen_undone(self, undone: Undone) -> None:
        self._reopen(lambda e: e.table_version is not None and is_undone(e.table_version, undone))

    def reopen_all(self) -> None:
        self._reopen(lambda _: True)

    def _reopen(self, which: Callable[[Status], bool]) -> None:
        found = {c: e for c, e in self._newest_of(self.events) if e.status is DeadLetterStatus.RESOLVED}
        self.note({c: e for c, e in found.items() if which(e)}, DeadLetterStatus.NEW)

    def _newest_of(self, coordinates: Iterable[Coordinate]) -> list[tuple[Coordinate, Status]]:
        return [(c, self.newest(c)) for c in coordinates]
