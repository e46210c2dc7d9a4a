"""The report workflow: topic and group, database, archive, lease and retries."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from tidemark.config.base import Section
from tidemark.config.kafka import LONGEST_POLL_S, LONGEST_SESSION_S
from tidemark.config.listener import Assignor, Listener, RetryBackoff, timing_faults
from tidemark.config.sections import BreakerSettings

_REVOKE_GRACE_S = 5.0


class ArchiveOptions(Section, used_by="report worker"):
    location: str = Field(
        "reports", min_length=1, description="A folder (also a volume), or `s3a://bucket/prefix`."
    )
    endpoint: str | None = Field(None, description="URL of an S3-compatible store.")
    region: str | None = Field(None, description="AWS region.")
    orphan_grace: float = Field(
        3600.0, ge=0, description="Seconds an unreferenced archive object is left alone before it is swept."
    )


class ReportSource(Section, used_by="report worker"):
    """A landed table that strategies read, and the roles of its columns."""

    table: str | None = Field(
        None,
        min_length=1,
        description="Catalog name, or path of a Delta table; by default that of the stream of the same name.",
    )
    account: str = Field("account_id", description="Column that `accountIds` filters on.")
    value: str = Field("amount", description="Column that PERFORMANCE adds up.")
    at: str = Field("message_timestamp", description="Column that `from` and `to` bound.")


class Reports(Section, used_by="report worker"):
    database: str = Field(
        "sqlite:///reports.db",
        repr=False,
        description="SQLAlchemy URL of the status rows; PostgreSQL in production. Secret.",
    )
    topic: str = Field("bim-report-requested", min_length=1, description="Topic of the requests.")
    dlq_topic: str | None = Field(None, description="`{topic}-dlq` by default.")
    group_id: str = Field("bim-report-workers", min_length=1, description="Consumer group of the workers.")
    workers: int = Field(
        1,
        ge=1,
        description="Workers that run at the same time, each in a separate run; more than one need PostgreSQL.",
    )
    partitions: int = Field(6, ge=1, description="Partitions of the topics, when they are created.")
    replication: int = Field(1, ge=1, description="Replication factor of the topics, when they are created.")
    max_retries: int = Field(3, ge=0, description="Retries of a failed request: 3 retries are 4 attempts.")
    retry: RetryBackoff = Field(default_factory=RetryBackoff)
    lease: float = Field(60.0, gt=0, description="Seconds IN_PROGRESS lasts without a heartbeat.")
    sweep_interval: float = Field(
        10.0, gt=0, description="Seconds between two sweeps of the outbox and the leases."
    )
    publish_grace: float = Field(
        10.0,
        ge=0,
        description="Seconds after submission after which the sweeper publishes an unpublished row.",
    )
    republish_after: float = Field(
        3600.0, gt=0, description="Seconds after which a request still SUBMITTED is published again."
    )
    max_crashes: int = Field(5, ge=1, description="Workers that a request may crash before it is FAILED.")
    archive: ArchiveOptions = Field(default_factory=ArchiveOptions)
    breaker: BreakerSettings | None = Field(
        None, description="Breaker of the archive; the file's `breaker` by default."
    )
    sources: dict[str, ReportSource] = Field(
        default_factory=dict, description="Landed tables by their name in a request (`source`)."
    )
    assignor: Assignor = Field(Assignor.COOPERATIVE, description="partition.assignment.strategy.")
    max_poll_interval: float = Field(
        300.0, ge=1, le=LONGEST_POLL_S, description="Seconds; polling continues while a report is made."
    )
    session_timeout: float = Field(
        30.0,
        ge=1,
        le=LONGEST_SESSION_S,
        description="Seconds without a heartbeat until the broker gives up.",
    )
    dlq_timeout: float = Field(30.0, gt=0, description="Seconds to wait for the DLQ's acknowledgements.")
    shutdown_timeout: float = Field(
        30.0, ge=0, description="Seconds to let a running report finish at the end."
    )

    @property
    def dlq(self) -> str:
        return self.dlq_topic or f"{self.topic}-dlq"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.dlq == self.topic:
            raise ValueError("dlq-topic must differ from topic")
        if self.workers > 1 and self.database.startswith("sqlite"):
            raise ValueError(f"{self.workers} workers share no SQLite file; name a PostgreSQL database")
        if self.archive.orphan_grace < 2 * self.lease:
            # Else a report could be swept between its archiving and its status row.
            raise ValueError(
                f"archive.orphan-grace ({self.archive.orphan_grace:g} s) is less than twice "
                f"the lease ({self.lease:g} s)"
            )
        times = {"dlq-timeout": self.dlq_timeout}
        faults = timing_faults(self.max_poll_interval, self.session_timeout, self.retry, times)
        if fault := "; ".join(faults):
            raise ValueError(fault)
        return self

    def as_listener(self) -> Listener:
        """A listener for one request at a time; exhausted ones are dead-lettered, whatever failed."""
        return Listener(
            topics=(self.topic,),
            group_id=self.group_id,
            batch_size=1,
            batch_interval=0,
            max_attempts=self.max_retries + 1,
            on_exhausted="dead-letter",
            on_outage="dead-letter",
            retry=self.retry,
            dlq_topic=self.dlq,
            assignor=self.assignor,
            max_poll_interval=self.max_poll_interval,
            session_timeout=self.session_timeout,
            dlq_timeout=self.dlq_timeout,
            revoke_grace=min(_REVOKE_GRACE_S, self.max_poll_interval / 2),
            shutdown_timeout=self.shutdown_timeout,
        )
