"""The world of the ledger's model: a table with its log, dead letters, checkpoints, and one own commit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidemark.contract.errors import Fenced, RestartStream, RetriableError
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind, OwnCommit
from tidemark.ingest.batch.new_offsets import Novelty
from tidemark.sink.append import Committed, state_after
from tidemark.sink.ledger import (
    RESTORE,
    LedgerState,
    commits_since,
    find_token,
    foreign_commit,
    in_generation,
    read_state,
    restored_since,
)
from tidemark.sink.table_log import LogEntry, LogPage

TOPIC_ID = "topic"
RECORDS = 8

Coordinate = tuple[int, int]


class Rule(StrEnum):
    COMPARE_AND_SET = "an own commit is made only if none was made since its marks were read"
    MARKS_IN_EFFECT = "a RESTORE takes the marks back"
    RESTORE_OF_RESTORE = "a restored version's marks may lie behind another RESTORE"
    CEILING = "below the highest marks ever committed the table decides"
    NO_GAP = "a batch starts at or below the marks"
    FENCE = "another run's commit stops this one before its next batch"
    RESUME_AT_DONE = "a fresh checkpoint starts where dead letters are complete"
    REOPEN = "a RESTORE reopens the letters whose replay it undid"
    REPLAY_BELOW_MARKS = "replay leaves alone what the stream has not passed"


ALL_RULES = frozenset(Rule)


@dataclass
class Checkpoint:
    """Spark's: `planned` ends of batches, of which the first `committed` are done."""

    initial: Marks
    planned: list[Marks] = field(default_factory=list)
    committed: int = 0

    @property
    def position(self) -> Marks:
        return self.planned[self.committed - 1] if self.committed else Marks()


class World:
    """Topic, table with its log, dead letters and checkpoints. `rules` names those that hold."""

    def __init__(self, rng: random.Random, rules: frozenset[Rule]) -> None:
        self.rng = rng
        self.rules = rules
        self.ends = Marks(dict.fromkeys(range(rng.choice((1, 1, 2, 3))), RECORDS))
        self.coordinates = [(p, o) for p in self.ends for o in range(RECORDS)]
        self.bad = {c for c in self.coordinates if rng.random() < 0.25}
        self.log = [LogEntry(0, "CREATE TABLE")]
        self.rows: list[Counter[Coordinate]] = [Counter()]
        self.added: list[bool] = [False]
        self.last_seq = 0
        self.resolved: dict[Coordinate, bool] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.outage = False

    def holds(self, rule: Rule) -> bool:
        return rule in self.rules

    def landed(self, coordinate: Coordinate) -> int:
        return self.rows[-1][coordinate]

    def commit(self, operation: str, added: Iterable[Coordinate] = (), own: OwnCommit | None = None) -> None:
        rows = Counter(self.rows[-1])
        rows.update(added)
        self.added.append(rows != self.rows[-1])
        self.rows.append(rows)
        self.log.append(LogEntry(len(self.log), operation, own=own))

    def restore(self, version: int) -> None:
        if not self.holds(Rule.RESTORE_OF_RESTORE):
            self.log = [replace(e, operation="OPTIMIZE") if e.operation == RESTORE else e for e in self.log]
        self.rows.append(Counter(self.rows[version]))
        self.added.append(True)
        operation = RESTORE if self.holds(Rule.MARKS_IN_EFFECT) else "OPTIMIZE"
        self.log.append(LogEntry(len(self.log), operation, parameters={"version": str(version)}))

    def read_log(self, limit: int) -> LogPage:
        return LogPage(self.log[: -limit - 1 : -1], complete=limit > len(self.log))

    def state(self) -> LedgerState:
        state = in_generation(read_state(self.read_log), TOPIC_ID)
        return state if self.holds(Rule.CEILING) else replace(state, ceiling=state.marks)

    def publish(self, coordinate: Coordinate) -> None:
        self.resolved.setdefault(coordinate, False)

    def reopen_letters(self) -> None:
        for coordinate in self.resolved:
            self.resolved[coordinate] &= self.landed(coordinate) > 0

    def append(
        self, own: OwnCommit, rows: Iterable[Coordinate] = (), novelty: Novelty | None = None
    ) -> Generator[None, None, Committed]:
        """As `sink.append.append`: Delta's check of the transaction, then whether the token is there."""
        undecided = novelty.undecided if novelty else {}
        fenced_by_seq = self.holds(Rule.COMPARE_AND_SET) and self.last_seq >= own.seq
        begin = len(self.log)
        new = [c for c in rows if not (within(undecided, c) and self.landed(c))]
        yield
        since = self.log[begin:]
        overlaps = self.holds(Rule.COMPARE_AND_SET) and any(_chained(e) for e in since)
        stale_read = bool(undecided) and any(self.added[begin:])
        if not (fenced_by_seq or overlaps or stale_read):
            self.last_seq = own.seq
            self.commit("WRITE", new, own)
        yield
        page = commits_since(self.read_log, own.base)
        entry = find_token(page, own.token)
        if entry is None:
            other = foreign_commit(page, own.run)
            raise Fenced(other.token) if other else RetriableError("not written")
        if restored_since(page, own.base):
            raise RestartStream("restored")
        return Committed(entry.version, len(new), own)

    def open(
        self, run: str, state: LedgerState, marks: Marks, done: Marks, kind: CommitKind = CommitKind.OPEN
    ) -> Generator[None, None, LedgerState]:
        """As `streams.generation.open_generation`."""
        seq = state.seq + 1
        token = f"{run}/{kind}/{seq}"
        own = OwnCommit(kind, "s", TOPIC_ID, token, seq, state.version, marks, done, state.ceiling)
        committed = yield from self.append(own)
        return state_after(committed, state)


def within(ranges: Any, coordinate: Coordinate) -> bool:
    lo, hi = ranges.get(coordinate[0], (0, 0))
    return bool(lo <= coordinate[1] < hi)


def _chained(entry: LogEntry) -> bool:
    return entry.own is not None and entry.own.kind is not CommitKind.REPLAY
