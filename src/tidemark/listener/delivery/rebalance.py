"""Rebalances: keeps the assignment, and commits the offsets that are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog
from confluent_kafka import OFFSET_END, KafkaException

from tidemark.contract.errors import NonRetriableError
from tidemark.listener.delivery.assignment import Assigned, Assignment
from tidemark.listener.delivery.batch import Batch, Partition
from tidemark.listener.executor import Execution
from tidemark.listener.identity import TopicIdentity
from tidemark.listener.member import GroupMember
from tidemark.listener.starting import StartingPoint

log = structlog.get_logger("tidemark.listener")

_ASK_AGAIN_S = 1.0

Notice = Callable[[Sequence[Partition]], None]


class Rebalance:
    """Keeps `assignment` equal to the group's. Runs in the polling thread, inside `poll` or `close`.

    A revoked partition is committed, synchronously, before it is released. A lost one is not committed, because
    another member owns it already. In both cases its offsets, records and attempts are dropped.
    """

    def __init__(
        self,
        member: GroupMember,
        start: StartingPoint,
        *,
        identity: TopicIdentity,
        revoke_grace: float,
        on_assigned: Notice | None = None,
        on_revoked: Notice | None = None,
    ) -> None:
        self.assignment = Assignment()
        self.inflight: tuple[Batch, Execution] | None = None
        self._member = member
        self._start = start
        self._identity = identity
        self._grace = revoke_grace
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked

    def subscribe(self) -> None:
        self._member.subscribe(on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def commit_done(self, partitions: Sequence[Assigned] | None = None) -> None:
        """Commits each partition's contiguous prefix, never below what is committed already, and never an
        offset of a topic that was created again: its partitions are dropped, uncommitted.
        """
        due = {
            owned.where: owned.offsets.prefix
            for owned in (self.assignment if partitions is None else partitions)
            if owned.offsets.prefix > owned.offsets.committed and not owned.start_unknown
        }
        if not due:
            return
        again = self._identity.look()
        self.assignment.drop_topics(again)
        due = {where: offset for where, offset in due.items() if where[0] not in again}
        if not due:
            return
        for where, offset in self._member.commit(due).items():
            if (owned := self.assignment.get(where)) is not None:
                owned.offsets.committed = max(owned.offsets.committed, offset)

    def find_start(self, owned: Assigned) -> bool:
        """Looks again for a start that was not known at the assignment. True once it is known."""
        try:
            offset = self._start.resolve([owned.where])[owned.where]
        except NonRetriableError:
            raise
        except Exception as error:
            log.warning(
                "start still unknown", topic=owned.where[0], partition=owned.where[1], error=str(error)
            )
            return False
        owned.offsets.restart_at(offset)
        owned.seek_to, owned.start_unknown = offset, False
        return True

    def out_of_range(self, owned: Assigned) -> None:
        """The broker does not have the next offset, or no longer. Records that are under way are settled first; the
        broker is asked again then.
        """
        if owned.offsets.has_open:
            owned.seek_to = owned.offsets.next_offset
            owned.paused_until = time.monotonic() + _ASK_AGAIN_S
            return
        offset = self._start.within_range(owned.where, owned.offsets.next_offset)
        owned.offsets.restart_at(offset)
        owned.seek_to = offset

    def _assigned(self, partitions: list[Partition]) -> dict[Partition, int]:
        if self._on_assigned is not None and partitions:
            # A handler with buffers must drop them before the marks are read.
            self._on_assigned(partitions)
        try:
            starts = self._start.resolve(partitions) if partitions else {}
        except NonRetriableError:
            raise
        except Exception as error:
            log.warning("start unknown, will ask again", partitions=partitions, error=_message(error))
            starts = {}
        for where in partitions:
            owned = self.assignment.add(where, starts.get(where, 0))
            owned.start_unknown = where not in starts
        if partitions:
            log.info("partitions assigned", partitions=[f"{t}-{p}" for t, p in partitions])
        return {where: starts.get(where, OFFSET_END) for where in partitions}

    def _revoked(self, partitions: list[Partition]) -> None:
        self._let_finish(partitions)
        leaving = [owned for where in partitions if (owned := self.assignment.get(where)) is not None]
        self.commit_done(leaving)
        self._forget(partitions, "partitions revoked")

    def _lost(self, partitions: list[Partition]) -> None:
        self._forget(partitions, "partitions lost")

    def _forget(self, partitions: list[Partition], what: str) -> None:
        self.assignment.drop(partitions)
        if partitions:
            log.info(what, partitions=[f"{t}-{p}" for t, p in partitions])
            if self._on_revoked is not None:
                self._on_revoked(partitions)

    def _let_finish(self, partitions: list[Partition]) -> None:
        """Waits `revoke-grace` for a running batch, so that the next owner need not process its records again."""
        if self.inflight is None or not self._grace:
            return
        batch, execution = self.inflight
        gone = set(partitions)
        if not any(record.where in gone for record in batch.records):
            return
        result = execution.wait(self._grace)
        if result is None:
            return
        for index, record in enumerate(batch.records):
            owned = self.assignment.current(record)
            if owned is not None and result.done(index):
                owned.offsets.done(record.offset)


def _message(error: Exception) -> str:
    return str(error.args[0]) if isinstance(error, KafkaException) else str(error)
