"""A lock for commits on a local file system, where two commits of one version could overwrite each other.

Delta's log store checks and renames there, which is not atomic. A lock file in the table's folder excludes
Tidemark's own writers from that window. On S3 every commit is a conditional write (`log_store`), and catalogs
have their own locks.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tidemark.config.destination import TableRef
from tidemark.contract.errors import RetriableError

LONGEST_WAIT_S = 120.0
_LOOK_S = 0.05


@contextmanager
def commit_lock(table: TableRef, *, within: float | None = None) -> Iterator[None]:
    """Held during a commit to a table that others write to too. Does nothing where the table is not a local folder.

    Raises RetriableError where another process, a frozen one perhaps, holds it for over `within` seconds,
    two minutes by default.
    """
    if not table.is_local or table.path is None:
        yield
        return
    folder = Path(table.path.removeprefix("file://").removeprefix("file:"))
    if not folder.is_dir():
        yield
        return
    # Delta and VACUUM ignore names with a leading underscore.
    with (folder / "_tidemark.lock").open("a") as file:
        _take(file, table, LONGEST_WAIT_S if within is None else within)
        yield


def _take(file: IO[str], table: TableRef, within: float) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise RetriableError(
                    f"another process holds the commit lock of {table} for more than {within:g} s",
                    f"one writer per stream: end the other one; `fuser {file.name}` names it",
                ) from error
        time.sleep(_LOOK_S)
