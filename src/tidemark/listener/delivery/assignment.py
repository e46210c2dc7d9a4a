"""The partitions that this member owns now, each with its offsets, its epoch and the end of its pause."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from tidemark.listener.delivery.batch import Batch, Partition, Record
from tidemark.listener.delivery.offsets import PartitionOffsets


@dataclass
class Assigned:
    """One partition, for as long as one assignment of it lasts.

    `paused` is None while unknown: the client keeps a pause across an eager reassignment.
    `paused_until` is on the monotonic clock. `seek_to` is a position that the client could not take yet.
    `start_unknown`: the position to start from is not known yet, so the partition must not be read.
    """

    where: Partition
    epoch: int
    offsets: PartitionOffsets
    paused: bool | None = None
    paused_until: float = 0.0
    seek_to: int | None = None
    start_unknown: bool = False

    def ready(self, now: float) -> bool:
        return self.seek_to is None and not self.start_unknown and now >= self.paused_until


@dataclass
class Assignment:
    """Fences by epochs: a record received under a former assignment of its partition changes nothing."""

    _owned: dict[Partition, Assigned] = field(default_factory=dict)
    _epochs: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __iter__(self) -> Iterator[Assigned]:
        return iter(list(self._owned.values()))

    def __len__(self) -> int:
        return len(self._owned)

    def add(self, where: Partition, start: int) -> Assigned:
        self._owned[where] = Assigned(where, next(self._epochs), PartitionOffsets(start))
        return self._owned[where]

    def drop(self, gone: Iterable[Partition]) -> None:
        for where in gone:
            self._owned.pop(where, None)

    def get(self, where: Partition) -> Assigned | None:
        return self._owned.get(where)

    def current(self, record: Record) -> Assigned | None:
        """The partition's state if the record was received under the present assignment."""
        owned = self._owned.get(record.where)
        return owned if owned is not None and owned.epoch == record.epoch else None

    def lags(self, end_of: Callable[[Partition], int | None]) -> dict[Partition, int]:
        """Offsets not done yet, of each partition whose end `end_of` knows."""
        ends = {where: end_of(where) for where in self._owned}
        return {
            where: max(0, end - self._owned[where].offsets.prefix)
            for where, end in ends.items()
            if end is not None
        }

    def drop_topics(self, topics: Collection[str]) -> None:
        self.drop([where for where in self._owned if where[0] in topics])

    def still_owned(self, records: Iterable[Record]) -> list[Record]:
        return [record for record in records if self.current(record)]

    def touched_by(self, batch: Batch) -> list[Assigned]:
        """Partitions of the batch that are still owned, once each."""
        found = {record.where: self.current(record) for record in batch.records}
        return [owned for owned in found.values() if owned is not None]
