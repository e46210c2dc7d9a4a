"""The world of the ledger's model: a table with its log as Delta keeps it, checkpoints, and ledger commits."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeVar

from tests.ledger_dead_letters import Coordinate, DeadLetters
from tests.ledger_rules import Rule

from tidemark.config.destination import TableRef
from tidemark.contract.errors import RetriableError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.ingest.batch.new_offsets import NewOffsets
from tidemark.sink.append import Committed, state_after, written_in
from tidemark.sink.ledger import RESTORE, LedgerState, commits_since, in_generation, read_state
from tidemark.sink.lineage import is_chained, takes_rows_away
from tidemark.sink.replay_commit import replay_written_in
from tidemark.sink.table_log import LogEntry, LogPage
from tidemark.source.checkpoint import Position
from tidemark.streams.completed import with_completed
from tidemark.streams.generation import Opening

TOPIC_ID = "topic"
RECORDS = 8
MOST_A_BATCH = 3
TABLE = TableRef(path="modelled")
_SOMETHING_ELSE = "OPTIMIZE"
_TRUNCATE = "TRUNCATE"
_MIDNIGHT = datetime(2026, 3, 1)  # as Delta's history says it
_BETWEEN_COMMITS = timedelta(hours=5)

Result = TypeVar("Result")
Steps = Generator[None, None, Result]


@dataclass
class Checkpoint:
    """Spark's: `planned` ends of batches, of which the first `committed` are done."""

    initial: Marks
    planned: list[Marks] = field(default_factory=list)
    committed: int = 0

    def position(self) -> Position | None:
        """As `source.checkpoint.Checkpoint.position`."""
        if not self.planned:
            return None
        return Position(self.committed - 1, self.planned[self.committed - 1] if self.committed else Marks())


class World:
    """Topic, table with its log, dead letters and checkpoints. `rules` names those that hold."""

    def __init__(self, rng: random.Random, rules: frozenset[Rule]) -> None:
        self.rng = rng
        self.rules = rules
        self.ends = Marks(dict.fromkeys(range(rng.choice((1, 1, 2, 3))), RECORDS))
        self.coordinates = [(p, o) for p in self.ends for o in range(RECORDS)]
        self.bad = self.some_of_the_records()
        self.ever_bad = set(self.bad)
        self.log = [LogEntry(0, "CREATE TABLE", _MIDNIGHT)]
        self.rows: list[Counter[Coordinate]] = [Counter()]
        self.added: list[bool] = [False]
        self.forgotten = 0
        self.seqs = {CommitKind.BATCH: 0, CommitKind.REPLAY: 0}
        self.dead_letters = DeadLetters(rng, by_sequence=Rule.STATUS_SEQUENCE in rules)
        self.checkpoints: dict[str, Checkpoint] = {}
        self.outage = False
        self.decided: dict[str, list[Coordinate]] = {}
        self.advanced: set[str] = set()

    def holds(self, rule: Rule) -> bool:
        return rule in self.rules

    def some_of_the_records(self) -> set[Coordinate]:
        return {c for c in self.coordinates if self.rng.random() < 0.25}

    def change_schema(self) -> None:
        self.bad = self.some_of_the_records()
        self.ever_bad |= self.bad

    def landed(self, coordinate: Coordinate) -> int:
        return self.rows[-1][coordinate]

    def commit(self, operation: str, rows: Counter[Coordinate], **fields: Any) -> None:
        self.added.append(rows != self.rows[-1])
        self.rows.append(rows)
        version = len(self.log)
        self.log.append(LogEntry(version, operation, _MIDNIGHT + version * _BETWEEN_COMMITS, **fields))

    def restore(self, version: int, *, by_timestamp: bool = False) -> None:
        """Left out: one that brings a row back between the moment a replay missed it and its append. Nothing
        conflicts there, in Delta neither.
        """
        back = self.rows[version] - self.rows[-1]
        if any(c in back for rows in self.decided.values() for c in rows):
            return
        if not self.holds(Rule.RESTORE_OF_RESTORE):
            self.log = [_hidden(e) if e.operation == RESTORE else e for e in self.log]
        parameters = {"version": str(version)}
        if by_timestamp:
            # A text in the zone of some session.
            at = self.log[version].timestamp
            assert at is not None
            zone = timedelta(hours=self.rng.randint(-12, 14))
            parameters = {"version": "null", "timestamp": str(at + zone)}
        operation = RESTORE if self.holds(Rule.MARKS_IN_EFFECT) else _SOMETHING_ELSE
        self.commit(operation, Counter(self.rows[version]), parameters=parameters)

    def truncate(self) -> None:
        self.commit(_TRUNCATE, Counter())

    def forget(self) -> None:
        """Cleanup of the log leaves its newest version; Delta still knows the transactions."""
        self.commit(_SOMETHING_ELSE, Counter(self.rows[-1]))
        self.forgotten = len(self.log) - 1

    def read_log(self, limit: int) -> LogPage:
        entries = self.log[self.forgotten :]
        if not self.holds(Rule.EMPTIED_BEHIND_RESTORE):
            newest = next(
                (e.ledger_commit.base for e in reversed(entries) if e.ledger_commit and is_chained(e)), 0
            )
            entries = [_hidden(e) if e.operation == _TRUNCATE and e.version <= newest else e for e in entries]
        return LogPage(entries[: -limit - 1 : -1], complete=limit > len(entries))

    def state(self, *, accept_emptied: bool = False) -> LedgerState:
        read = read_state(self.read_log, accept_emptied=accept_emptied)
        state = in_generation(read, TOPIC_ID)
        if state.restored and state.newest and not self.holds(Rule.PUBLISHED_IN_EFFECT):
            state = replace(state, published=state.newest.published)
        return state if self.holds(Rule.CEILING) else replace(state, high_water=state.marks)

    def completed(self, state: LedgerState) -> LedgerState:
        return with_completed(self.target, state)

    @property
    def target(self) -> Any:
        """What `streams.target.Target` is to functions that only ask it for checkpoints."""
        absent = SimpleNamespace(position=lambda: None)
        return SimpleNamespace(checkpoint=lambda identifier: self.checkpoints.get(identifier, absent))

    def append(
        self,
        ledger_commit: LedgerCommit,
        rows: Iterable[Coordinate] = (),
        new_offsets: NewOffsets | None = None,
    ) -> Steps[Committed]:
        """As `sink.append.append`. A batch that asks the table conflicts with whoever changes its rows."""
        uncertain = new_offsets.uncertain if new_offsets else {}

        def decided() -> list[Coordinate]:
            return [c for c in rows if not (within(uncertain, c) and self.landed(c))]

        yield from self._write(ledger_commit, decided, reads=bool(uncertain))
        page = commits_since(self.read_log, ledger_commit.base)
        if not self.holds(Rule.EMPTIED_DURING_BATCH):
            page = replace(
                page, entries=[_hidden(e) if e.operation == _TRUNCATE else e for e in page.entries]
            )
        return _found(written_in(page, TABLE, ledger_commit))

    def append_replayed(self, ledger_commit: LedgerCommit, rows: list[Coordinate]) -> Steps[Committed]:
        """As `sink.replay_commit.append_replayed`: what the table lacks was decided before."""
        yield from self._write(ledger_commit, lambda: rows, reads=False)
        page = commits_since(self.read_log, ledger_commit.base)
        if not self.holds(Rule.RESTORED_DURING_REPLAY):
            page = replace(page, entries=[_hidden(e) if takes_rows_away(e) else e for e in page.entries])
        return _found(replay_written_in(page, TABLE, ledger_commit))

    def _write(
        self, ledger_commit: LedgerCommit, decide: Callable[[], list[Coordinate]], *, reads: bool
    ) -> Steps[None]:
        """A transaction of Delta: one seq a chain, serializable with what it read."""
        replays = ledger_commit.kind is CommitKind.REPLAY
        chain = CommitKind.REPLAY if replays else CommitKind.BATCH
        fences = replays or self.holds(Rule.COMPARE_AND_SET)
        skipped = fences and self.seqs[chain] >= ledger_commit.seq
        begin = len(self.log)
        rows = decide()
        yield
        since = self.log[begin:]
        overlaps = fences and any(
            e.ledger_commit and (e.ledger_commit.kind is CommitKind.REPLAY) is replays for e in since
        )
        if not (skipped or overlaps or (reads and any(self.added[begin:]))):
            self.seqs[chain] = max(ledger_commit.seq, self.seqs[chain])
            if not self.holds(Rule.UNDONE_PASSED_ON):
                ledger_commit = replace(ledger_commit, undone=())
            self.commit("WRITE", self.rows[-1] + Counter(rows), ledger_commit=ledger_commit)
        yield

    def open(
        self,
        run: str,
        state: LedgerState,
        marks: Marks,
        published: Marks,
        high_water: Marks | None = None,
        kind: CommitKind = CommitKind.OPEN,
        **fields: Any,
    ) -> Steps[LedgerState]:
        """As `streams.generation.open_generation`."""
        high_water = state.high_water if high_water is None else high_water
        moved = replace(state, marks=marks, published=published, high_water=high_water)
        opening = Opening(kind.value, kind, **fields)
        committed = yield from self.append(opening.commit(moved, stream="s", run=run, topic_id=TOPIC_ID))
        return state_after(committed, moved)


def within(ranges: Any, coordinate: Coordinate) -> bool:
    lo, hi = ranges.get(coordinate[0], (0, 0))
    return bool(lo <= coordinate[1] < hi)


def _hidden(entry: LogEntry) -> LogEntry:
    return replace(entry, operation=_SOMETHING_ELSE)


def _found(committed: Committed | None) -> Committed:
    if committed is None:
        raise RetriableError("not written")
    return committed
