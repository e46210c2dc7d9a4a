"""The ledger: the marks of a table, read from its own log.

The functions are pure over log entries, so that the random-schedule model in the tests runs them too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce

from tidemark.contract.errors import LedgerError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.contract.undone import Undone, with_restore
from tidemark.sink.lineage import (
    RESTORE,
    NeedsOlderEntries,
    commits_in_effect,
    entries_between,
    is_chained,
    restored_versions,
)
from tidemark.sink.table_log import LogEntry, LogPage, ReadLog

_FIRST_PAGE = 20


@dataclass(frozen=True)
class LedgerState:
    """The ledger at `version`, the base of the next ledger commit.

    `newest` is the newest commit of the stream's chain in log order; seq, high water and topic id are
    its. `newest_at` is its time, naive UTC, None where this process has just made it. `marks` and `published`
    are those in effect, which a RESTORE since then lowers: `restored` is true then, and a new generation has to
    be opened before anything is written. The next ledger commit passes on `undone` and `replay_seq`.
    """

    version: int
    newest: LedgerCommit | None = None
    newest_version: int = -1
    newest_at: datetime | None = field(default=None, compare=False)
    marks: Marks = field(default_factory=Marks)
    published: Marks = field(default_factory=Marks)
    high_water: Marks = field(default_factory=Marks)
    restored: bool = False
    undone: Undone = ()
    replay_seq: int = 0

    @property
    def seq(self) -> int:
        return self.newest.seq if self.newest else 0

    @property
    def resume(self) -> Marks:
        """Where a fresh checkpoint starts: dead letters of [published, marks) may be missing."""
        return self.marks.lowest(self.published)

    @property
    def recovering(self) -> bool:
        """Below the high water accepted rows land by coordinates: rows that survived are not doubled."""
        return not self.marks >= self.high_water

    def next_commit(self, kind: CommitKind, *, stream: str, topic_id: str, token: str) -> LedgerCommit:
        """The next commit of the stream's chain, based on this state: it passes on all that the state holds."""
        return LedgerCommit(
            kind=kind,
            stream=stream,
            topic_id=topic_id,
            token=token,
            seq=self.seq + 1,
            base=self.version,
            marks=self.marks,
            published=self.published,
            high_water=self.high_water,
            replay_due=self.newest.replay_due if self.newest else 0,
            table_id=self.newest.table_id if self.newest else None,
            undone=self.undone,
            replay_seq=self.replay_seq,
        )

    def published_at_least(self, position: Marks) -> LedgerState:
        """The state where dead letters are published up to `position`, as a checkpoint's commit proves."""
        return replace(self, published=self.published.highest(position.lowest(self.marks)))


def read_state(read_log: ReadLog, *, accept_emptied: bool = False) -> LedgerState:
    """The table's state; reads no more of the log than needed.

    Raises LedgerError where the table was replaced, overwritten or emptied since the ledger commit whose marks
    hold, and where a RESTORE leads to a version that the log no longer has. With `accept_emptied`, for setting
    the marks by hand, neither is raised, and unknown marks are empty.
    """
    limit = _FIRST_PAGE
    while True:
        page = read_log(limit)
        try:
            return state_of(page, accept_emptied=accept_emptied)
        except NeedsOlderEntries as missing:
            if page.complete:
                raise LedgerError(
                    f"the table's log no longer has version {missing.version}, which a RESTORE went back to",
                    "choose where to go on: tidemark adopt --stream <name>",
                ) from None
            limit *= 8


def state_of(page: LogPage, *, accept_emptied: bool = False) -> LedgerState:
    """The state at the newest entry of `page`. Raises NeedsOlderEntries if the page is too short."""
    if not page.entries:
        return LedgerState(version=-1)
    at = next((e for e in page.entries if is_chained(e)), None)
    if at is None:
        if not page.complete:
            raise NeedsOlderEntries(page.entries[-1].version - 1)
        return LedgerState(version=page.version, replay_seq=newest_replay_seq(page))
    newest = at.ledger_commit
    assert newest is not None
    since = list(entries_between(page, newest.base))
    restores = [e for e in reversed(since) if e.operation == RESTORE]
    marks, published = _in_effect(page, newest, accept_emptied=accept_emptied)
    undone = newest.undone
    for restore in restores:
        back_to = _oldest_restored(page, restore, lenient=accept_emptied)
        undone = with_restore(undone, back_to=back_to, restored_at=restore.version)
    return LedgerState(
        version=page.version,
        newest=newest,
        newest_version=at.version,
        newest_at=at.timestamp,
        marks=marks,
        published=published,
        high_water=newest.high_water.highest(newest.marks),
        restored=bool(restores),
        undone=undone,
        replay_seq=max(newest.replay_seq, newest_replay_seq(LogPage(since, complete=True))),
    )


def commits_since(read_log: ReadLog, version: int) -> LogPage:
    """The entries after `version`, newest first. Raises LedgerError if the log does not reach that far."""
    limit = 4
    while True:
        page = read_log(limit)
        if page.version < version:
            raise LedgerError(
                f"the table's log ends at version {page.version}, before version {version} that was read:"
                " the table was dropped and created again",
                "take the rows that are there into account with tidemark adopt --stream <name>, or start a new table",
            )
        if page.entries[-1].version <= version + 1 or page.complete:
            return LogPage([e for e in page.entries if e.version > version], complete=True)
        limit *= 4


def find_token(page: LogPage, token: str) -> LogEntry | None:
    """The entry that this attempt wrote. A write succeeded if and only if there is one."""
    return next(
        (e for e in page.entries if e.ledger_commit is not None and e.ledger_commit.token == token), None
    )


def foreign_commit(page: LogPage, run: str) -> LedgerCommit | None:
    """The newest commit of the chain that another run wrote: a writer that finds one is fenced."""
    return next(
        (
            e.ledger_commit
            for e in page.entries
            if is_chained(e) and e.ledger_commit and e.ledger_commit.run != run
        ),
        None,
    )


def restored_since(page: LogPage, version: int) -> bool:
    return any(e.operation == RESTORE and e.version > version for e in page.entries)


def newest_replay_seq(page: LogPage) -> int:
    """The newest seq of the replays' chain among these entries, 0 where there is none."""
    return max(
        (
            e.ledger_commit.seq
            for e in page.entries
            if e.ledger_commit and e.ledger_commit.kind is CommitKind.REPLAY
        ),
        default=0,
    )


def in_generation(state: LedgerState, topic_id: str) -> LedgerState:
    """The state for one incarnation of the topic: a topic created again starts without marks."""
    if state.newest is None or state.newest.topic_id == topic_id:
        return state
    return replace(state, marks=Marks(), published=Marks(), high_water=Marks(), restored=False)


def _in_effect(page: LogPage, newest: LedgerCommit, *, accept_emptied: bool) -> tuple[Marks, Marks]:
    """Marks and published marks in effect, the lowest where several may be. Too low ones are harmless, as rows
    below the high water land by coordinates. Those of an older incarnation of the topic do not count.
    """
    try:
        found = commits_in_effect(page, page.version, accept_emptied=accept_emptied)
    except NeedsOlderEntries:
        if accept_emptied and page.complete:
            return Marks(), Marks()
        raise
    same = [
        ledger_commit
        for ledger_commit in found
        if ledger_commit is not None and ledger_commit.topic_id == newest.topic_id
    ]
    if len(same) < len(found):
        return Marks(), Marks()
    return reduce(Marks.lowest, (o.marks for o in same)), reduce(Marks.lowest, (o.published for o in same))


def _oldest_restored(page: LogPage, restore: LogEntry, *, lenient: bool) -> int:
    """The oldest version that a RESTORE may have gone back to: at worst a dead letter too many is reopened."""
    try:
        return restored_versions(page, restore)[-1]
    except NeedsOlderEntries:
        if lenient and page.complete:
            return 0
        raise
