"""Which offsets of one assigned partition are done, and which may therefore be committed."""

from __future__ import annotations

from collections import Counter


class PartitionOffsets:
    """Tracks one partition from its assignment on; a new assignment has a new one.

    Invariant: every offset received below `prefix` is done, so `prefix` is safe to commit. It is the
    *next* offset to read (last done + 1, or the first that is not done), which is what Kafka stores.
    It does not wait for holes in the offsets (compaction, transaction markers), nor for those between
    the last record and the end.
    """

    def __init__(self, start: int) -> None:
        self.committed = start
        self.attempts: Counter[int] = Counter()
        """Failed attempts per offset that count towards the exit condition."""
        self.submissions: Counter[int] = Counter()
        """Executions per offset, whatever their result."""
        self._next = start
        self._open: set[int] = set()
        self._done: set[int] = set()

    @property
    def next_offset(self) -> int:
        """The lowest offset that the next poll may return."""
        return self._next

    @property
    def has_open(self) -> bool:
        return bool(self._open)

    @property
    def prefix(self) -> int:
        return min(self._open) if self._open else self._next

    def receive(self, offset: int) -> bool:
        """Whether the record must be processed: not if it was delivered twice or is done already."""
        if offset < self._next:
            return False
        self._next = offset + 1
        if offset in self._done:
            return False
        self._open.add(offset)
        return True

    def reached_end(self, offset: int) -> bool:
        """All offsets below are received or have no record. True if `prefix` moved past such holes."""
        moves = offset > self._next
        self._next = max(self._next, offset)
        return moves and not self._open

    def done(self, offset: int) -> None:
        if offset not in self._open:
            return
        self._open.discard(offset)
        self._done.add(offset)
        settled = self.prefix
        self._done = {o for o in self._done if o >= settled}
        for counts in (self.attempts, self.submissions):
            for counted in [o for o in counts if o < settled or o in self._done]:
                del counts[counted]

    def rewind(self) -> int | None:
        """Forgets the open offsets and returns the lowest of them, to seek to; None without any.

        Records above it that are done stay done, and are skipped when they come again.
        """
        if not self._open:
            return None
        self._next = min(self._open)
        self._open.clear()
        return self._next

    def restart_at(self, offset: int) -> None:
        """Starts again at another offset: the broker no longer has the next one, or the start became known."""
        self._open.clear()
        self._done.clear()
        self._next = offset
        self.committed = min(self.committed, offset)
