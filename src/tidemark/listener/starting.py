"""Where an assigned partition starts, also when the broker does not have that offset."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from tidemark.config.listener import OnDataLoss, Reset
from tidemark.contract.errors import DataLoss
from tidemark.contract.marks import Marks
from tidemark.listener.delivery.batch import Partition
from tidemark.listener.member import GroupMember

log = structlog.get_logger("tidemark.listener")

StartingOffsets = Callable[[Sequence[Partition]], Mapping[Partition, int | None]]
"""The next offsets of partitions, instead of the group's. None: the earliest record.
A partition that is left out starts at the group's commit."""


def from_marks(marks_of: Callable[[str], Marks]) -> StartingOffsets:
    """Starts at the marks of the table that the handler writes, read again at each assignment.

    A partition without a mark starts at its earliest record, whatever the group committed: the table has no
    record of it.
    """

    def starts(partitions: Sequence[Partition]) -> Mapping[Partition, int | None]:
        marks = {topic: marks_of(topic) for topic in {topic for topic, _ in partitions}}
        return {(topic, partition): marks[topic].get(partition) for topic, partition in partitions}

    return starts


class StartingPoint:
    """Resolves positions for partitions just assigned, and for one whose position fell out of range."""

    def __init__(
        self,
        member: GroupMember,
        *,
        reset: Reset,
        on_data_loss: OnDataLoss,
        starting_offsets: StartingOffsets | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._member = member
        self._reset = reset
        self._on_data_loss = on_data_loss
        self._starting_offsets = starting_offsets
        self._sleep = sleep

    def resolve(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Marks first, then the group's commit, then `auto-offset-reset`; always within the broker's range.

        Raises `DataLoss` under `on-data-loss: stop`, and the errors of the broker and of the hook.
        """
        marks = self._starting_offsets(partitions) if self._starting_offsets else {}
        rest = [where for where in partitions if where not in marks]
        committed = self._member.committed(rest) if rest else {}
        return {
            where: self._member.range_of(where)[0]
            if where in marks and marks[where] is None
            else self.within_range(where, marks.get(where, committed.get(where)))
            for where in partitions
        }

    def within_range(self, where: Partition, wanted: int | None) -> int:
        low, high = self._member.range_of(where)
        if wanted is None:
            if self._reset is Reset.ERROR:
                raise DataLoss(
                    f"nothing is committed for {where[0]}-{where[1]} and `auto-offset-reset` is `error`",
                    hint="commit a position for the group, or set `auto-offset-reset`",
                )
            return low if self._reset is Reset.EARLIEST else high
        for _ in range(3):
            if wanted <= high:
                break
            # A new leader may answer with an older end for a moment; a shortened topic stays short.
            self._sleep(0.5)
            low, high = self._member.range_of(where)
        if low <= wanted <= high:
            return wanted
        return self._lost(where, wanted, low, high)

    def _lost(self, where: Partition, wanted: int, low: int, high: int) -> int:
        if wanted < low:
            what = (
                f"{low - wanted} offsets of {where[0]}-{where[1]}, {wanted} to {low - 1}, were removed unread"
            )
        else:
            what = (
                f"{where[0]}-{where[1]} ends at {high}, below the next offset {wanted}: cut or created again"
            )
        if self._on_data_loss is OnDataLoss.STOP:
            raise DataLoss(
                what,
                hint=f"set `on-data-loss: continue` to go on at {low}, or reset the group's offset",
            )
        log.error(
            "offsets lost, going on at the earliest", what=what, topic=where[0], partition=where[1], start=low
        )
        return low
