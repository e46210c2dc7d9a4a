"""The ledger: which marks a table stands at, told from its own log (DESIGN §2).

The functions are pure over log entries, so that the random-schedule model in the tests runs them too.
Long because the rules hold only together: dropping one loses or doubles records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tidemark.contract.errors import LedgerError
from tidemark.contract.marks import Marks
from tidemark.contract.own_commit import CommitKind, OwnCommit
from tidemark.sink.table_log import LogEntry, LogPage, ReadLog

RESTORE = "RESTORE"
_EMPTYING = ("REPLACE", "TRUNCATE")
_WIDEST_ZONE_OFFSET = timedelta(hours=14)
_FIRST_PAGE = 20


@dataclass(frozen=True)
class LedgerState:
    """What the log says at `version`: the base of the next own commit.

    `newest` is the newest commit of the stream's chain in log order; seq, ceiling and topic id are
    its. `newest_at` is its time, naive UTC, None where it was made by this process just now. `marks` and
    `done` are those in effect, which a RESTORE since then lowers: `restored` is true then, and a new
    generation has to be opened before anything is written.
    """

    version: int
    newest: OwnCommit | None = None
    newest_version: int = -1
    newest_at: datetime | None = field(default=None, compare=False)
    marks: Marks = field(default_factory=Marks)
    done: Marks = field(default_factory=Marks)
    ceiling: Marks = field(default_factory=Marks)
    restored: bool = False

    @property
    def seq(self) -> int:
        return self.newest.seq if self.newest else 0

    @property
    def resume(self) -> Marks:
        """Where a fresh checkpoint starts: dead letters of [done, marks) may be missing still."""
        return self.marks.lowest(self.done)

    @property
    def recovering(self) -> bool:
        """Below the ceiling accepted rows land by coordinates: rows that survived are not doubled."""
        return not self.marks >= self.ceiling

    def done_at_least(self, position: Marks) -> LedgerState:
        """A checkpoint's committed position proves that the dead letters are complete up to there."""
        return replace(self, done=self.done.highest(position.lowest(self.marks)))


def read_state(read_log: ReadLog, *, accept_emptied: bool = False) -> LedgerState:
    """The table's state, reading as little of the log as decides it.

    Raises LedgerError where the table was replaced, overwritten or emptied since the newest own
    commit, and where a RESTORE leads to a version that the log no longer has. `accept_emptied` is for
    those who set the marks by hand: neither is raised then, and marks that nobody can tell are empty.
    """
    limit = _FIRST_PAGE
    while True:
        page = read_log(limit)
        try:
            return state_of(page, accept_emptied=accept_emptied)
        except _NeedsOlderEntries as missing:
            if page.complete:
                raise LedgerError(
                    f"the table's log no longer has version {missing.version}, which a RESTORE went back to",
                    "tell where to go on: tidemark adopt",
                ) from None
            limit *= 8


def state_of(page: LogPage, *, accept_emptied: bool = False) -> LedgerState:
    """The state at the newest entry of `page`. Raises _NeedsOlderEntries if the page is too short."""
    if not page.entries:
        return LedgerState(version=-1)
    at = next((e for e in page.entries if _chained(e)), None)
    if at is None:
        if not page.complete:
            raise _NeedsOlderEntries(page.entries[-1].version - 1)
        return LedgerState(version=page.version)
    newest = _own(at)
    if not accept_emptied:
        _refuse_emptied(page, since=newest.base)
    restore = _newest_restore(page, above=newest.base)
    if restore is None:
        marks, done = newest.marks, newest.done
    else:
        marks, done = _restored_marks(page, restore, lenient=accept_emptied), newest.done
    return LedgerState(
        version=page.version,
        newest=newest,
        newest_version=at.version,
        newest_at=at.timestamp,
        marks=marks,
        done=done,
        ceiling=newest.ceiling.highest(newest.marks),
        restored=restore is not None,
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
                "take the rows that are there into account with tidemark adopt, or start a new table",
            )
        if page.entries[-1].version <= version + 1 or page.complete:
            return LogPage([e for e in page.entries if e.version > version], complete=True)
        limit *= 4


def find_token(page: LogPage, token: str) -> LogEntry | None:
    """The entry that this very attempt wrote. A write succeeded if and only if there is one."""
    return next((e for e in page.entries if e.own is not None and e.own.token == token), None)


def foreign_commit(page: LogPage, run: str) -> OwnCommit | None:
    """The newest commit of the chain that another run wrote: whoever finds one is fenced."""
    return next((_own(e) for e in page.entries if _chained(e) and _own(e).run != run), None)


def restored_since(page: LogPage, version: int) -> bool:
    return any(e.operation == RESTORE and e.version > version for e in page.entries)


def in_generation(state: LedgerState, topic_id: str) -> LedgerState:
    """The state as it concerns one incarnation of the topic: a topic made again starts at nothing."""
    if state.newest is None or state.newest.topic_id == topic_id:
        return state
    return replace(state, marks=Marks(), done=Marks(), ceiling=Marks(), restored=False)


class _NeedsOlderEntries(Exception):
    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def _chained(entry: LogEntry) -> bool:
    return entry.own is not None and entry.own.kind is not CommitKind.REPLAY


def _own(entry: LogEntry) -> OwnCommit:
    assert entry.own is not None
    return entry.own


def _at_or_below(page: LogPage, version: int) -> Iterator[LogEntry]:
    yield from (e for e in page.entries if e.version <= version)
    # A complete page ends at the log's beginning, which is not the table's once the log was cleaned up.
    oldest = page.entries[-1].version
    if oldest > 0:
        raise _NeedsOlderEntries(min(version, oldest - 1))


def _newest_restore(page: LogPage, *, above: int, below: int | None = None) -> LogEntry | None:
    for entry in page.entries:
        if below is not None and entry.version >= below:
            continue
        if entry.version <= above:
            return None
        if entry.operation == RESTORE:
            return entry
    if not page.complete and above < page.entries[-1].version:
        raise _NeedsOlderEntries(above)
    return None


def _in_effect(page: LogPage, version: int) -> tuple[Marks, Marks]:
    """Marks and done in effect at `version`: an own commit's, or, through a RESTORE, an older version's."""
    for entry in _at_or_below(page, version):
        if entry.operation == RESTORE:
            return _in_effect(page, _restored_version(page, entry))
        if _chained(entry):
            own = _own(entry)
            restore = _newest_restore(page, above=own.base, below=entry.version)
            if restore is not None:
                return _in_effect(page, _restored_version(page, restore))
            return own.marks, own.done
    return Marks(), Marks()


def _restored_marks(page: LogPage, restore: LogEntry, *, lenient: bool) -> Marks:
    try:
        return _in_effect(page, _restored_version(page, restore))[0]
    except _NeedsOlderEntries:
        if lenient and page.complete:
            return Marks()
        raise


def _restored_version(page: LogPage, restore: LogEntry) -> int:
    """The version a RESTORE went back to.

    By timestamp the log holds a text without a zone: the earliest instant it can mean is taken, as
    marks that are too low are safe (rows below the ceiling land by coordinates).
    """
    version = restore.parameters.get("version")
    if version not in (None, "", "null"):
        return int(version)
    asked = _instant(restore.parameters.get("timestamp"))
    for entry in _at_or_below(page, restore.version - 1):
        if asked is None or entry.timestamp is None:
            break
        if entry.timestamp.replace(tzinfo=None) <= asked - _WIDEST_ZONE_OFFSET:
            return entry.version
    return 0


def _instant(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=None) if text else None
    except ValueError:
        return None


def _refuse_emptied(page: LogPage, *, since: int) -> None:
    for entry in page.entries:
        if entry.version <= since:
            return
        overwrote = entry.operation == "WRITE" and entry.parameters.get("mode") == "Overwrite"
        deleted_all = entry.operation == "DELETE" and entry.parameters.get("predicate") in (
            "[]",
            '["true"]',
            "",
        )
        if overwrote or deleted_all or any(word in entry.operation for word in _EMPTYING):
            what = (
                "was overwritten" if overwrote else "was emptied" if deleted_all else f"saw {entry.operation}"
            )
            raise LedgerError(
                f"the table {what} in version {entry.version}, after the newest own commit:"
                " its rows and its marks no longer belong together",
                "land everything again: tidemark adopt --marks earliest; or go on where the marks stand:"
                " tidemark adopt --marks kept",
            )
