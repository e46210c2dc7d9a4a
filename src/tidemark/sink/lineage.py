"""The ledger commits behind a table version: through RESTOREs, never past a commit that emptied the table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from tidemark.contract.errors import LedgerError
from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.sink.table_log import LogEntry, LogPage

RESTORE = "RESTORE"
_REPLACING = ("REPLACE TABLE", "TRUNCATE", "CLONE")
_DELETES_ALL = ("[]", '["true"]', "")
_WIDEST_ZONE_OFFSET = timedelta(hours=14)


class NeedsOlderEntries(Exception):
    """The page is too short: `version` is needed."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


def is_chained(entry: LogEntry) -> bool:
    """Whether it is a commit of the stream's chain, which carries marks."""
    return entry.ledger_commit is not None and entry.ledger_commit.kind is not CommitKind.REPLAY


def commits_in_effect(
    page: LogPage, version: int, *, accept_emptied: bool = False
) -> tuple[LedgerCommit | None, ...]:
    """The ledger commits whose marks may hold at `version`; None stands for a version before the first one.

    It is the newest one at or below `version`. Where a RESTORE is newer, or lies between the base of that
    commit and the commit itself, it is that of the restored version: one of several, where the log does not
    tell which version that was.

    Raises LedgerError where the table may have been emptied since, unless `accept_emptied`;
    NeedsOlderEntries where the page does not reach far enough.
    """
    for entry in _at_or_below(page, version):
        if entry.operation == RESTORE:
            return _of_restored(page, entry, accept_emptied=accept_emptied)
        if not accept_emptied:
            refuse_emptied(entry)
        if is_chained(entry):
            assert entry.ledger_commit is not None
            for between in entries_between(page, entry.ledger_commit.base, entry.version):
                if between.operation == RESTORE:
                    return _of_restored(page, between, accept_emptied=accept_emptied)
                if not accept_emptied:
                    refuse_emptied(between)
            return (entry.ledger_commit,)
    return (None,)


def entries_between(page: LogPage, after: int, before: int | None = None) -> Iterator[LogEntry]:
    """Entries of the versions between the two, newest first; without `before` up to the page's newest."""
    for entry in _down_from(page, page.version if before is None else before - 1):
        if entry.version <= after:
            return
        yield entry
    if not page.complete and page.entries[-1].version > after + 1:
        raise NeedsOlderEntries(after + 1)


def restored_versions(page: LogPage, restore: LogEntry) -> list[int]:
    """The versions that a RESTORE may have gone back to, newest first.

    For a RESTORE by timestamp the log holds a text without a zone. All candidates count, as the marks of the
    oldest are not the lowest where marks went back in between.
    """
    version = restore.parameters.get("version")
    if version not in (None, "", "null"):
        return [int(version)]
    asked = _instant(restore.parameters.get("timestamp"))
    found = []
    for entry in _at_or_below(page, restore.version - 1):
        at = entry.timestamp.replace(tzinfo=None) if entry.timestamp is not None else None
        if asked is None or at is None or at <= asked + _WIDEST_ZONE_OFFSET:
            found.append(entry.version)
        if asked is not None and at is not None and at <= asked - _WIDEST_ZONE_OFFSET:
            break
    return found or [0]


def _of_restored(
    page: LogPage, restore: LogEntry, *, accept_emptied: bool
) -> tuple[LedgerCommit | None, ...]:
    found: dict[int, LedgerCommit | None] = {}
    for version in restored_versions(page, restore):
        for ledger_commit in commits_in_effect(page, version, accept_emptied=accept_emptied):
            found[ledger_commit.seq if ledger_commit is not None else 0] = ledger_commit
    return tuple(found.values())


def takes_rows_away(entry: LogEntry) -> bool:
    """Whether this commit may have removed rows, as a RESTORE does."""
    return entry.operation == RESTORE or _emptied_by(entry) is not None


def refuse_emptied(entry: LogEntry) -> None:
    """Raises LedgerError if this commit removed all rows."""
    what = _emptied_by(entry)
    if what is not None:
        raise LedgerError(
            f"the table {what} in version {entry.version}, after the newest ledger commit before it:"
            " its rows and its marks no longer belong together",
            "land everything again: tidemark adopt --stream <name> --marks earliest; or go on where the marks stand:"
            " tidemark adopt --stream <name> --marks kept",
        )


def _emptied_by(entry: LogEntry) -> str | None:
    parameters = entry.parameters
    if any(word in entry.operation for word in _REPLACING):
        return f"saw {entry.operation}"
    if entry.operation == "WRITE" and parameters.get("mode") == "Overwrite":
        return "was overwritten"
    if entry.operation == "STREAMING UPDATE" and parameters.get("outputMode") == "Complete":
        return "was overwritten by a streaming query"
    if entry.operation == "DELETE" and parameters.get("predicate") in _DELETES_ALL:
        return "was emptied"
    return None


def _at_or_below(page: LogPage, version: int) -> Iterator[LogEntry]:
    yield from _down_from(page, version)
    # A complete page ends at the log's beginning, which log cleanup moves away from the table's.
    oldest = page.entries[-1].version
    if oldest > 0:
        raise NeedsOlderEntries(min(version, oldest - 1))


def _down_from(page: LogPage, version: int) -> Iterator[LogEntry]:
    begin = bisect_left(page.entries, -version, key=lambda entry: -entry.version)
    return islice(page.entries, begin, None)


def _instant(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text.strip()).replace(tzinfo=None) if text else None
    except ValueError:
        return None
