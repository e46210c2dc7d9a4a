"""Runs streams: one query for each table, several in one application; a failed one leaves the others alone.

Long because it has the whole life of a query, from its first start to its last restart.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.config.settings import Settings
from tidemark.contract import records
from tidemark.contract.errors import RetriesExhausted, ShutdownRequested, TidemarkError, summary_of_error
from tidemark.contract.events import (
    BreakerChanged,
    OffsetsLost,
    StreamEnded,
    StreamObserver,
    StreamsExpected,
    StreamStarted,
)
from tidemark.contract.routes import Route
from tidemark.dead_letters.topic_setup import dead_letter_topic
from tidemark.ingest.availability import TABLE, Availability
from tidemark.ingest.background import Background
from tidemark.ingest.batch.event_relay import relaying
from tidemark.ingest.batch.handler import IngestBatch
from tidemark.ingest.batch.held_ledger import HeldLedger
from tidemark.ingest.batch.plan import BatchPlan
from tidemark.ingest.batch.schema_ids import WiderPlan
from tidemark.ingest.dead_letter_table import DeadLetterTableQuery
from tidemark.ingest.heartbeat import beat_if_due
from tidemark.ingest.idempotency.modes import before_the_batch
from tidemark.ingest.monitoring.telemetry import telemetry_of
from tidemark.ingest.observers import Observers, notify_retries
from tidemark.ingest.outage_replay import OutageReplay
from tidemark.ingest.query import watch
from tidemark.ingest.restarts import RestartPolicy
from tidemark.ingest.start.decision import Start, start_of
from tidemark.ingest.state_ahead import state_ahead
from tidemark.monitoring.recording import MetricsObserver
from tidemark.resilience.breakers import Breakers
from tidemark.resilience.classification import classifier_for
from tidemark.resilience.retry import retrier_for
from tidemark.source.groups import GroupOffsets
from tidemark.source.reader import read_stream, start_polling
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.target import Target
from tidemark.streams.targets import targets_of
from tidemark.transform import SchemaRegistry, transform

log = structlog.get_logger(__name__)

LONGEST_END_S = 120.0
"""The running batch has 60 s; its query, a replay and the DLQ table's query share the rest (`ingest.query`)."""
_LOOK_S = 0.2


@dataclass(frozen=True)
class StreamOutcome:
    """How a query ended: `error` is None where it read all there was, or was stopped."""

    name: str
    error: BaseException | None


@dataclass
class Ingest:
    """The streams of one application. `run()` returns when all have ended, with the outcome of each.

    `available_now` reads what is there and ends; otherwise queries run until `stop()`, SIGTERM included.
    Telemetry runs as `metrics` in the configuration asks, unless one of `observers` records metrics already.
    """

    spark: SparkSession
    settings: Settings
    streams: Sequence[str] = ()
    available_now: bool = False
    observers: Sequence[StreamObserver] = ()
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    sleep: Callable[[float], bool] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _end_at: float = float("inf")
    _breakers: Breakers = field(init=False)
    _watching: Sequence[StreamObserver] = ()
    _polling: int = 1

    def __post_init__(self) -> None:
        self._breakers = Breakers.of(
            self.settings,
            listeners=[lambda c: self._observing.emit(BreakerChanged(c.name, c.old, c.new, c.reason))],
        )

    def run(self) -> list[StreamOutcome]:
        if any(isinstance(observer, MetricsObserver) for observer in self.observers):
            return self._run_all()
        with telemetry_of(self.settings, self.spark, run=self.run_id) as telemetry:
            self._watching = telemetry.observers
            return self._run_all()

    def _run_all(self) -> list[StreamOutcome]:
        names = list(self.streams) or list(self.settings.streams)
        targets = [t for name in names for t in targets_of(self.spark, self.settings, name, run=self.run_id)]
        # A run that ends by itself never waits for records.
        with state_ahead(self.spark, () if self.available_now else targets) as observers:
            self._watching = [*self._watching, *observers]
            return self._run_targets(targets)

    def _run_targets(self, targets: Sequence[Target]) -> list[StreamOutcome]:
        self._polling = len(targets) + sum(target.keeps_dead_letters for target in targets)
        self._observing.emit(StreamsExpected(tuple(t.name for t in targets)))
        outcomes: list[StreamOutcome] = []
        supervisors = [
            threading.Thread(
                target=lambda t=t: outcomes.append(self._supervise(t)), name=f"tidemark-{t.name}", daemon=True
            )
            for t in targets
        ]
        for supervisor in supervisors:
            supervisor.start()
        for supervisor in supervisors:
            while supervisor.is_alive() and time.monotonic() < self._end_at:
                supervisor.join(_LOOK_S)
        ended = {outcome.name for outcome in outcomes}
        for target in targets:
            if target.name not in ended:
                # A call to a store that does not answer cannot be interrupted; commits are atomic anyway.
                log.warning("stream did not end in time and is left behind", stream=target.name)
                outcomes.append(StreamOutcome(target.name, None))
        return sorted(outcomes, key=lambda o: o.name)

    def stop(self) -> None:
        """Ask every query to end after its running batch. `run` returns within two minutes."""
        self._end_at = min(self._end_at, time.monotonic() + LONGEST_END_S)
        self._stopping.set()

    def _supervise(self, target: Target) -> StreamOutcome:
        """Start the query, and start it again from the ledger where its failure needs that."""
        restart_policy = RestartPolicy(self.available_now, classifier_for(target.stream.failures))
        while True:
            try:
                self._run_query(target, restart_policy)
                return self._ended(target, None)
            except WiderPlan as error:
                target = replace(target, decode=error.decode)
            except Exception as error:
                if isinstance(error, ShutdownRequested) and self._stopping.is_set():
                    return self._ended(target, None)
                delay = None if self._stopping.is_set() else restart_policy.delay_after(error)
                if delay is None:
                    log.error("stream stopped", stream=target.name, error=summary_of_error(error))
                    cause = error.__cause__ if isinstance(error, RetriesExhausted) else None
                    return self._ended(target, cause if isinstance(cause, TidemarkError) else error)
                log.warning(
                    "starting again from the ledger",
                    stream=target.name,
                    seconds=delay,
                    why=summary_of_error(error),
                )
                self._pause(delay)

    def _pause(self, seconds: float) -> bool:
        return (self.sleep or self._stopping.wait)(seconds)

    def _ended(self, target: Target, error: BaseException | None) -> StreamOutcome:
        self._observing.emit(StreamEnded(target.name, error))
        return StreamOutcome(target.name, error)

    @property
    def _observing(self) -> Observers:
        return Observers([*self.observers, *self._watching])

    def _run_query(self, target: Target, restart_policy: RestartPolicy) -> None:
        admin = KafkaAdmin(self.settings.kafka)
        retry = retrier_for(
            target.stream.processing,
            classifier_for(target.stream.failures),
            sleep=self._pause,
            on_retry=notify_retries(target.name, self._observing),
        )
        availability = Availability(target.name, self._breakers, retry, self.available_now, self._observing)
        availability.wait_for(TABLE)
        start = retry.call(lambda: start_of(self.spark, admin, target, now=self.now()), step="start")
        target = start.target
        started = time.monotonic()
        topic, marks = start.topic, start.state.marks
        event = StreamStarted(target.name, topic.name, topic.id, str(target.table), marks, start.fresh)
        # Below the marks where the dead letters of the batch before them may not all be published.
        reads_from = {"reads_from": dict(start.marks)} if start.fresh and start.marks != marks else {}
        about = vars(event) | {"marks": dict(marks)} | reads_from
        log.info("stream starts", **about, checkpoint=start.checkpoint_id)
        self._observing.emit(event)
        if start.fresh and target.remembers:
            log.info("no content is remembered yet", stream=target.name, checkpoint=start.checkpoint_id)
        if start.lost:
            self._observing.emit(OffsetsLost(target.name, start.lost))
        beaten = beat_if_due(self.spark, target, start.topic, now=self.now(), state=start.state)
        plan = retry.call(lambda: self._plan(target, start, admin, availability), step="start")
        ledger = HeldLedger(plan, start.state, read_at=0.0 if beaten else started)
        replay_outage = OutageReplay(self.spark, self.settings, target, ledger)
        keep_dead_letters = DeadLetterTableQuery(
            self.spark, self.settings, target, self.available_now, polling=self._polling
        )
        background = Background(self.spark, target, ledger, self.now, replay_outage, keep_dead_letters)
        observing = Observers([restart_policy, self._observing])
        with relaying(self.spark, start.checkpoint.path, observing) as observers:
            handler = IngestBatch(plan, ledger, observers)
            try:
                watch(self._start_query(target, start, handler), handler, self._stopping, background)
                if self.available_now:
                    replay_outage.finish(self._stopping)
            finally:
                replay_outage.abandon()
                keep_dead_letters.finish(self._stopping)

    def _plan(self, target: Target, start: Start, admin: KafkaAdmin, availability: Availability) -> BatchPlan:
        group = self.settings.kafka.consumer.group_id
        return BatchPlan(
            stream=target.name,
            run=self.run_id,
            topic=start.topic,
            table=target.table,
            checkpoint_id=start.checkpoint_id,
            checkpoint=start.checkpoint,
            start=start.marks,
            admin=admin,
            processing=target.stream.processing,
            dead_letters=dead_letter_topic(self.settings, target, start.topic, admin),
            group=GroupOffsets(admin, group if target.decode is not None else f"{group}-landing"),
            availability=availability,
            decode=target.decode,
            registry=SchemaRegistry.of(target.stream.avro),
            idempotency=target.idempotency,
        )

    def _start_query(self, target: Target, start: Start, handler: IngestBatch) -> StreamingQuery:
        processing = target.stream.processing
        envelopes = read_stream(
            self.spark,
            self.settings.kafka,
            start.topic,
            start=start.marks,
            processing=processing,
            bounded=self.available_now,
        )
        if target.decode is not None:
            classified = transform(envelopes, target.decode)
        else:
            classified = envelopes.select(
                "*",
                F.lit(Route.ACCEPTED.value).alias(records.ROUTE),
                F.lit(None).cast(records.FAILURE_DDL).alias(records.FAILURE),
                F.struct(*records.ENVELOPE_COLUMNS).alias(records.ROW),
                F.lit(0).alias(records.UNKNOWN_FIELDS),
            )
        writer = (
            before_the_batch(self.spark, classified, target)
            .writeStream.queryName(f"{target.name} {self.run_id[:8]}")
            .option("checkpointLocation", start.checkpoint.path)
            .foreachBatch(handler)
        )
        every = None if self.available_now else processing.seconds_between_polls(self._polling)
        return start_polling(writer, name=target.name, every=every)
