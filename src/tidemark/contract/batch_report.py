"""The result of one batch in plain values, for logs, metrics and observers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemark.contract.marks import Marks


@dataclass(frozen=True)
class BatchReport:
    """One batch in numbers: read = accepted + rejected + skipped + duplicate, always.

    `version` is the table version of its commit, None where nothing had to be written. `marks` are the marks
    after it, `ends` the topic's end offsets right after it (None where the broker did not answer). `failures`
    counts the rejected records by failure code. `newest` is the highest record timestamp read (UTC, without
    zone). Files and bytes are those that the commit added to the table. `copies` counts the part of
    `duplicate` that are duplicates by content; None where contents were not compared. `conflicts` counts the
    duplicates by coordinates whose row in the table has other content.
    """

    stream: str
    batch_id: int
    read: int
    accepted: int
    rejected: int
    skipped: int
    duplicate: int
    unknown_fields: int
    version: int | None
    marks: Marks
    seconds: float = 0.0
    commit_seconds: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    newest: datetime | None = None
    files_written: int = 0
    bytes_written: int = 0
    ends: Marks | None = None
    copies: int | None = None
    conflicts: int = 0

    @property
    def difference(self) -> int:
        return self.read - self.accepted - self.rejected - self.skipped - self.duplicate

    @property
    def lag(self) -> int | None:
        """An upper bound of the unread records: offsets have gaps. None where the ends are unknown."""
        if self.ends is None:
            return None
        return sum(max(0, end - self.marks.at(p)) for p, end in self.ends.items())
