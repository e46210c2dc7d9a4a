"""The listener's loop: collect a batch, have it executed, commit or rewind, again.

Long because the loop is read as one: every step uses the state between two polls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaError

from tidemark.config.listener import Listener
from tidemark.contract.errors import ConfigError, NonRetriableError
from tidemark.listener.delivery.assignment import Assigned
from tidemark.listener.delivery.batch import Batch, BatchResult, Partition, Record
from tidemark.listener.delivery.dead_letter import DeadLetterPublisher
from tidemark.listener.delivery.giving_up import GivingUp, ListenerStopped, log_failure
from tidemark.listener.delivery.rebalance import Notice, Rebalance
from tidemark.listener.delivery.settlement import GivenUp, Settlement, Settler
from tidemark.listener.executor import Executor
from tidemark.listener.identity import ASKED_EVERY, TopicIdentity, TopicRecreated
from tidemark.listener.member import STOPPING, GroupMember, record_of
from tidemark.listener.meter import Meter
from tidemark.listener.starting import StartingOffsets, StartingPoint
from tidemark.monitoring.metrics import Metrics

log = structlog.get_logger("tidemark.listener")

SLICE = 0.2
"""Longest time, in seconds, that a call here blocks without looking at the stop flag."""
MEASURED_EVERY = 1.0
"""Seconds between two looks at the lag."""


@dataclass
class Totals:
    """Since the listener started. A record delivered again counts again."""

    batches: int = 0
    done: int = 0
    failed: int = 0
    dead_lettered: int = 0
    rewinds: int = 0


class AtLeastOnceListener:
    """Hands batches to `executor`, one at a time, and commits only records that are known to be done.

    A record can come twice (after a failure, a rebalance while a batch runs, a refused commit, a crash),
    and never zero times. `connection` has the properties of every Kafka client, and `consumer` those of the
    consumer alone, both in librdkafka's names. `starting_offsets` lets a handler that writes a table start from
    the table's marks. `on_given_up` is called after a dead letter is acknowledged and before its offset is committed.
    """

    def __init__(
        self,
        settings: Listener,
        connection: Mapping[str, object],
        *,
        executor: Executor,
        consumer: Mapping[str, object] | None = None,
        starting_offsets: StartingOffsets | None = None,
        on_assigned: Notice | None = None,
        on_revoked: Notice | None = None,
        on_given_up: Callable[[GivenUp], None] | None = None,
        on_progress: Callable[[Totals], None] | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.totals = Totals()
        self._settings = settings
        properties = {**connection, **(consumer or {}), **settings.consumer_properties()}
        self._member = GroupMember(properties, settings.topics)
        start = StartingPoint(
            self._member,
            reset=settings.auto_offset_reset,
            on_data_loss=settings.on_data_loss,
            starting_offsets=starting_offsets,
        )
        self._identity = TopicIdentity(connection, settings.topics)
        self._rebalance = Rebalance(
            self._member,
            start,
            identity=self._identity,
            revoke_grace=settings.revoke_grace,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        self._assignment = self._rebalance.assignment
        self._executor = executor
        self._dead_letters = DeadLetterPublisher(settings, connection)
        self._settler = Settler(settings)
        self._giving_up = GivingUp(settings, self._dead_letters, on_given_up=on_given_up)
        self._on_progress = on_progress
        self._meter = meter if meter is not None else Meter(Metrics(), settings.group_id)
        self._stop = threading.Event()
        self._measure_at = self._identify_at = 0.0
        self.heartbeat = time.monotonic()
        """Time of the loop's last turn; its age is the liveness, whatever the dependencies do."""
        self.busy = False  # whether records are collected or executed

    def stop(self) -> None:
        """Ends `run` soon, from any thread or signal handler: the running batch may finish."""
        self._stop.set()

    def run(self) -> Totals:
        """Runs until `stop`. Raises `ListenerStopped` or another `NonRetriableError` when a person must act."""
        try:
            self._check_topics()
            self._rebalance.subscribe()
            while not self._stop.is_set():
                if records := self._collect():
                    traced = Batch(tuple(records)).correlation_id
                    with structlog.contextvars.bound_contextvars(correlation_id=traced):
                        self._settle(*self._execute(records))
            return self.totals
        finally:
            self._rebalance.commit_done()
            self._member.close()
            self._executor.close()
            self._dead_letters.close()

    def _check_topics(self) -> None:
        for topic in self._settings.topics:
            partitions = self._member.partitions_of(topic)
            if not partitions:
                raise ConfigError(
                    f"topic {topic} does not exist", hint="create it, or correct the listener's `topics`"
                )
            if self._settings.on_exhausted == "dead-letter":
                self._dead_letters.check(topic, partitions)

    # collecting

    def _collect(self) -> list[Record]:
        """Records up to the limit, or until the interval after the first has passed."""
        records: list[Record] = []
        deadline: float | None = None
        while not self._stop.is_set():
            self._make_ready()
            self.busy = bool(records)
            wait = SLICE if deadline is None else min(SLICE, max(0.0, deadline - time.monotonic()))
            record = self._receive(wait, keep=True)
            if record is not None:
                records.append(record)
                deadline = (
                    deadline if deadline is not None else time.monotonic() + self._settings.batch_interval
                )
            full = len(records) >= self._settler.limit
            if full or (deadline is not None and time.monotonic() >= deadline):
                if records := self._assignment.still_owned(records):
                    return records
                deadline = None
        return []

    def _make_ready(self) -> None:
        """Carries out due seeks, resumes partitions whose wait is over, and pauses the others."""
        now = self.heartbeat = time.monotonic()
        resumed: list[Partition] = []
        for owned in self._assignment:
            if owned.start_unknown and now >= owned.paused_until and not self._rebalance.find_start(owned):
                owned.paused_until = now + self._settings.retry.base
            if owned.seek_to is not None and self._member.seek(owned.where, owned.seek_to):
                owned.seek_to = None
            ready = owned.ready(now)
            if ready and owned.paused is not False:
                resumed.append(owned.where)
            elif not ready and owned.paused is not True:
                self._member.pause([owned.where])
            owned.paused = not ready
        if resumed:
            self._member.resume(resumed)
        if now >= self._measure_at:
            self._measure_at = now + MEASURED_EVERY
            self._meter.lag(self._assignment.lags(self._member.end_seen))
        if now >= self._identify_at:
            self._identify_at = now + ASKED_EVERY
            self._identity.look()
        if recreated := self._identity.recreated:
            # Offsets of the former topic must not be committed to this one.
            self._assignment.drop_topics(recreated)
            raise TopicRecreated(min(recreated))

    def _receive(self, wait: float, *, keep: bool) -> Record | None:
        """One poll. While all is paused no record is kept: the partition seeks back to it."""
        message = self._member.poll(wait)
        if message is None:
            return None
        owned = self._assignment.get((str(message.topic()), int(message.partition() or 0)))
        error = message.error()
        at_end = error is not None and error.code() == KafkaError._PARTITION_EOF
        if error is not None and not at_end:
            self._poll_error(owned, error)
            return None
        if owned is None or owned.start_unknown or owned.seek_to is not None:
            return None
        if at_end:
            if owned.offsets.reached_end(int(message.offset() or 0)):
                self._rebalance.commit_done([owned])
            return None
        if owned.paused or not keep:
            owned.seek_to = owned.offsets.next_offset
            return None
        record = record_of(message, owned.epoch)
        return record if owned.offsets.receive(record.offset) else None

    def _poll_error(self, owned: Assigned | None, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._AUTO_OFFSET_RESET and owned is not None:
            self._rebalance.out_of_range(owned)
        elif error.fatal() or code in STOPPING:
            raise NonRetriableError(f"Kafka refuses this member: {error}", hint="check credentials and ACLs")
        else:
            log.warning("poll answered with an error", error=str(error))

    # executing

    def _execute(self, records: Sequence[Record]) -> tuple[Batch, BatchResult]:
        self.busy, batch = True, self._batch_of(records)
        started = time.monotonic()
        execution = self._executor.submit(batch)
        self._rebalance.inflight = (batch, execution)
        try:
            # Pausing discards fetched records, so a short execution does without.
            result = execution.wait(self._settings.pause_after)
            deadline: float | None = None
            while result is None:
                self._keep_alive()
                result = execution.wait(SLICE)
                if self._stop.is_set() and result is None:
                    deadline = deadline or time.monotonic() + self._settings.shutdown_timeout
                    if time.monotonic() >= deadline:
                        execution.cancel()
                        return batch, BatchResult.interrupted(len(batch))
            self._meter.executed(time.monotonic() - started)
            return batch, result
        finally:
            self._rebalance.inflight = None

    def _batch_of(self, records: Sequence[Record]) -> Batch:
        submission = attempt = 1
        for record in records:
            owned = self._assignment.current(record)
            if owned is not None:
                owned.offsets.submissions[record.offset] += 1
                submission = max(submission, owned.offsets.submissions[record.offset])
                attempt = max(attempt, 1 + owned.offsets.attempts[record.offset])
        return Batch(tuple(records), submission, attempt, topic_ids=self._identity.known)

    def _keep_alive(self) -> None:
        """Polls to stay in the group, with every partition paused, those just assigned included."""
        self.heartbeat = time.monotonic()
        for owned in self._assignment:
            if owned.paused is not True:
                self._member.pause([owned.where])
                owned.paused = True
        self._receive(0, keep=False)

    # settling

    def _settle(self, batch: Batch, result: BatchResult) -> None:
        settlement = self._settler.settle(batch, result, self._assignment)
        self.totals.batches += 1
        self.totals.done += settlement.succeeded
        self.totals.failed += settlement.failed
        self._meter.counted("done", settlement.succeeded)
        self._meter.counted("failed", settlement.failed)
        if settlement.succeeded:
            self._giving_up.row_ended()
        self._rebalance.commit_done()
        if settlement.stop is not None:
            hint = "no record of the failed batch is committed; fix the cause and start again"
            raise ListenerStopped(f"{settlement.stop.exception_class}: {settlement.stop.message}", hint)
        if settlement.given_up:
            written = self._giving_up.give_up(settlement, self._assignment, keep_alive=self._keep_alive)
            self.totals.dead_lettered += written
            self._meter.counted("dead-lettered", written)
            self._rebalance.commit_done()
        log_failure(result, settlement)
        self._rewind(batch, settlement)
        if self._on_progress is not None:
            self._on_progress(self.totals)

    def _rewind(self, batch: Batch, settlement: Settlement) -> None:
        """One seek per partition, to its lowest offset that is not done."""
        now = time.monotonic()
        for owned in self._assignment.touched_by(batch):
            target = owned.offsets.rewind()
            if target is not None:
                self.totals.rewinds += 1
                self._meter.rewound()
                owned.seek_to = target
                owned.paused_until = max(owned.paused_until, now + settlement.delays.get(owned.epoch, 0.0))
        if settlement.outage is not None:
            for owned in self._assignment:
                owned.paused_until = max(owned.paused_until, now + settlement.outage)
