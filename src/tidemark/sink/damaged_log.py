"""An explanation for a Delta log with a file that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidemark.contract.errors import LedgerError

_FILE = re.compile(r"FAILED_READ_FILE\S*\] [^\n]*?(\S+/_delta_log/\S+?\.(?:json|parquet))")


@contextmanager
def log_readable() -> Iterator[None]:
    """Raises LedgerError where the block fails on a file of a table's log; other errors pass unchanged.

    Delta ignores an empty newest commit, as a power failure leaves it.
    """
    try:
        yield
    except Exception as error:
        found = _FILE.search(str(error))
        if found is None:
            raise
        raise LedgerError(
            f"a file of the table's log cannot be read: {found.group(1)}",
            "bring it back from a backup, or from the store's older versions; if it is the newest commit, it"
            " can be moved away instead, with the other files of its number: its rows land again then"
            " (docs/runbook.md, The table's log is damaged)",
        ) from error
