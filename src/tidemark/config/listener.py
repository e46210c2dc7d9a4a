"""The listener: its topics, its batches, and what happens to a record that keeps failing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from tidemark.config.base import Section
from tidemark.config.kafka import LONGEST_POLL_S, LONGEST_SESSION_S, ConsumerSettings


class Reset(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    ERROR = "error"


class OnDataLoss(StrEnum):
    STOP = "stop"
    CONTINUE = "continue"


class Assignor(StrEnum):
    COOPERATIVE = "cooperative-sticky"
    RANGE = "range"
    ROUND_ROBIN = "roundrobin"


class RetryBackoff(Section, used_by="listener"):
    """Waits between attempts: base, doubled each time, at most the cap, spread by the jitter."""

    base: float = Field(1.0, gt=0, description="Seconds before the second attempt.")
    cap: float = Field(30.0, gt=0, description="Longest wait, in seconds.")
    jitter: float = Field(0.25, ge=0, lt=1, description="Share by which a wait is spread.")


def timing_faults(
    max_poll_interval: float, session_timeout: float, retry: RetryBackoff, within: Mapping[str, float]
) -> Iterator[str]:
    """What contradicts among a consumer's times, all in seconds. Those of `within` must end before the next poll."""
    for name, value in within.items():
        if value >= max_poll_interval:
            yield f"{name} ({value:g} s) must be below max-poll-interval ({max_poll_interval:g} s)"
    if session_timeout > max_poll_interval:
        yield "session-timeout must not be above max-poll-interval"
    if retry.base > retry.cap:
        yield "retry.base is above retry.cap"


class JobExecutorOptions(Section, used_by="listener"):
    """Runs each batch as a run of an existing Databricks job."""

    job_id: int = Field(gt=0, description="The job; it gets the parameters `batch`, `result` and `attempt`.")
    location: str = Field(min_length=1, description="Folder (a volume's path) that batches are written to.")
    poll_interval: float = Field(5.0, gt=0, description="Seconds between two queries of the run's state.")
    timeout: float = Field(
        3600.0, gt=0, description="Seconds after which the run is cancelled and counts as failed."
    )


class Listener(Section, used_by="listener"):
    """An at-least-once consumer group."""

    topics: tuple[str, ...] = Field(
        min_length=1, description="Topics to listen to. Never a DLQ topic of its own."
    )
    group_id: str = Field(min_length=1, description="Consumer group.")
    handler: str | None = Field(
        None, description="Function that takes each batch, as `package.module:function`."
    )
    job: JobExecutorOptions | None = Field(None, description="Run batches as a Databricks job instead.")
    batch_size: int = Field(500, ge=1, description="A batch is handed over at this many records …")
    batch_interval: float = Field(
        1.0, ge=0, description="… or this many seconds after its first record, whichever is first."
    )
    max_attempts: int = Field(
        4,
        ge=1,
        le=32767,
        description="Failures of one offset after which `on-exhausted` applies.",
    )
    on_exhausted: Literal["dead-letter", "stop"] = Field(
        "dead-letter",
        description="After the last attempt: publish to the DLQ topic, or stop with exit code 1.",
    )
    on_outage: Literal["pause", "dead-letter"] = Field(
        "pause",
        description="Failures of a dependency: wait for it without a limit, or count them as attempts too.",
    )
    retry: RetryBackoff = Field(default_factory=RetryBackoff)
    dlq_topic: str | None = Field(None, description="DLQ topic; `{topic}-dlq` by default.")
    dlq_timeout: float = Field(30.0, gt=0, description="Seconds to wait for the DLQ's acknowledgements.")
    max_dlq_failures: int = Field(
        5, ge=1, description="Consecutive failures to publish a dead letter after which the listener stops."
    )
    max_dead_letters_in_a_row: int | None = Field(
        None, ge=1, description="Stop after this many consecutive dead letters without a successful record."
    )
    auto_offset_reset: Reset = Field(Reset.EARLIEST, description="The start of a partition without a commit.")
    on_data_loss: OnDataLoss = Field(
        OnDataLoss.STOP,
        description="A position that the broker does not have (any more): stop, or continue at earliest.",
    )
    assignor: Assignor = Field(Assignor.COOPERATIVE, description="partition.assignment.strategy.")
    max_poll_interval: float = Field(
        300.0, ge=1, le=LONGEST_POLL_S, description="Seconds; polling continues while a batch runs."
    )
    session_timeout: float = Field(
        30.0,
        ge=1,
        le=LONGEST_SESSION_S,
        description="Seconds without a heartbeat until the broker gives up.",
    )
    pause_after: float = Field(
        0.25, ge=0, le=1, description="Seconds a batch may run before its partitions are paused."
    )
    revoke_grace: float = Field(
        5.0, ge=0, description="Seconds to let a running batch finish when its partitions are taken away."
    )
    shutdown_timeout: float = Field(
        30.0, ge=0, description="Seconds to let a running batch finish at the end."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        faults = []
        if self.handler and self.job:
            faults.append("name either `handler` or `job`, not both")
        faults += timing_faults(
            self.max_poll_interval,
            self.session_timeout,
            self.retry,
            {"dlq-timeout": self.dlq_timeout, "revoke-grace": self.revoke_grace},
        )
        if own := [t for t in self.topics if t in {self.dlq_topic_of(s) for s in self.topics}]:
            faults.append(f"the listener would read its own DLQ topic {', '.join(own)}")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def completed_by(self, consumer: ConsumerSettings) -> Listener:
        """The section; keys that it leaves out come from `kafka.consumer`. Raises ValidationError where the two
        contradict each other.
        """
        defaults: dict[str, object] = {
            "auto_offset_reset": Reset(consumer.auto_offset_reset),
            "batch_size": consumer.max_poll_records,
            "max_poll_interval": consumer.max_poll_interval_ms / 1000,
            "session_timeout": consumer.session_timeout_ms / 1000,
        }
        missing = {name: value for name, value in defaults.items() if name not in self.model_fields_set}
        return Listener.model_validate({**self.model_dump(exclude_unset=True), **missing})

    def dlq_topic_of(self, topic: str) -> str:
        return self.dlq_topic or f"{topic}-dlq"

    def consumer_properties(self) -> dict[str, object]:
        """Consumer options by librdkafka's names, in milliseconds. The caller adds the connection."""
        return {
            "group.id": self.group_id,
            "partition.assignment.strategy": self.assignor.value,
            "max.poll.interval.ms": int(self.max_poll_interval * 1000),
            "session.timeout.ms": int(self.session_timeout * 1000),
            "heartbeat.interval.ms": max(300, int(self.session_timeout * 1000 / 3)),
        }
