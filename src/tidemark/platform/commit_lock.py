"""On a local file system two commits of one version can overwrite each other in a narrow window.

Delta's log store checks and renames there, which is not one step. A lock file beside the log closes the
window between Tidemark's own writers. On S3 every commit is a conditional write (`log_store`), and catalogs
have locks of their own.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.config.destination import TableRef


@contextmanager
def commit_lock(table: TableRef) -> Iterator[None]:
    """Held while an own commit is made. Does nothing where the table is not a local folder."""
    if not table.is_local or table.path is None:
        yield
        return
    folder = Path(table.path.removeprefix("file://").removeprefix("file:"))
    if not folder.is_dir():
        yield
        return
    # Delta and VACUUM leave names with a leading underscore alone.
    with (folder / "_tidemark.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
