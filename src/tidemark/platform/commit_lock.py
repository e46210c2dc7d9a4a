"""A lock for commits on a local file system, where two commits of one version could overwrite each other.

Delta's log store checks and renames there, which is not atomic. A lock file in the table's folder excludes
Tidemark's own writers from that window. On S3 every commit is a conditional write (`log_store`), and catalogs
have their own locks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from tidemark.config.destination import TableRef
from tidemark.contract.errors import Locked, NonRetriableError

LONGEST_WAIT_S = 30.0
"""Shorter than the time that a stopped query has for the end of its batch."""
_LOOK_S = 0.05
# Delta and VACUUM ignore names with a leading underscore.
_NAME = "_tidemark.lock"
_RIGHTS = "let this user write to the table's folder"
_NO_LOCKS = "put the table on a file system with locks"
_PERMANENT = {
    errno.EISDIR: "remove the folder",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOLCK: _NO_LOCKS,
    errno.EOPNOTSUPP: _NO_LOCKS,
    errno.EBADF: _NO_LOCKS,
    errno.ENOSYS: _NO_LOCKS,
}
"""What a person has to fix, and how. Any other error is that of a moment, such as too many open files."""


@contextmanager
def commit_lock(table: TableRef, *, within: float | None = None) -> Iterator[None]:
    """Held during a commit to a table that others write to too. Does nothing where the table is not a local folder.

    Raises Locked where another writer, a frozen one perhaps, holds it for over `within` seconds, half a minute by
    default; NonRetriableError where there can be no such lock.
    """
    if not table.is_local or table.path is None:
        yield
        return
    folder = Path(table.path.removeprefix("file://").removeprefix("file:"))
    if not folder.is_dir():
        yield
        return
    with _taken(folder / _NAME, table, LONGEST_WAIT_S if within is None else within):
        yield


def _taken(path: Path, table: TableRef, within: float) -> IO[str]:
    deadline = time.monotonic() + within
    while True:
        try:
            file = _tried(path)
        except OSError as error:
            if error.errno not in _PERMANENT:
                raise
            raise NonRetriableError(
                f"the commit lock {path} cannot be taken: {error.strerror}", _PERMANENT[error.errno]
            ) from error
        if file is not None:
            return file
        if time.monotonic() > deadline:
            raise Locked(
                f"another writer holds the commit lock of {table} for more than {within:g} s",
                "`tidemark maintain` holds it while it compacts: wait for its end; a stream may have one ingest"
                f" alone: end the other one. `fuser {path}` names the process",
            )
        time.sleep(_LOOK_S)


def _tried(path: Path) -> IO[str] | None:
    """The lock's file, locked. None where another writer has it, or it is that of a table which was removed since."""
    with ExitStack() as closing:
        file = closing.enter_context(_opened(path))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        try:
            same = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except FileNotFoundError:
            return None
        if not same:
            return None
        closing.pop_all()
        return file


def _opened(path: Path) -> IO[str]:
    try:
        return path.open("a")
    except PermissionError:
        if not path.exists():
            raise
        # Made by another user of the same table: a lock needs no more than to read the file.
        return path.open()
