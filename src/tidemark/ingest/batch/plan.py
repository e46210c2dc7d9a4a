"""The immutable inputs of a query's batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemark.config.destination import TableRef
from tidemark.config.stream import Idempotency, Processing
from tidemark.contract.marks import Marks
from tidemark.dead_letters.topic import DeadLetterTopic
from tidemark.ingest.availability import Availability
from tidemark.resilience.retry import Retrier
from tidemark.source.checkpoint import Checkpoint
from tidemark.source.groups import GroupOffsets
from tidemark.source.topics import KafkaAdmin, Topic
from tidemark.streams.target import command
from tidemark.transform import DecodePlan, SchemaRegistry


@dataclass(frozen=True)
class BatchPlan:
    """Does not change while a query runs. Picklable: over Spark Connect batches run in another process.

    `start`: the marks at which the first batch of the checkpoint begins. `decode` and `registry` are None for
    a raw landing table.
    """

    stream: str
    run: str
    topic: Topic
    table: TableRef
    checkpoint_id: str
    checkpoint: Checkpoint
    start: Marks
    admin: KafkaAdmin
    processing: Processing
    dead_letters: DeadLetterTopic | None
    group: GroupOffsets
    availability: Availability
    decode: DecodePlan | None
    registry: SchemaRegistry | None
    idempotency: Idempotency = field(default_factory=Idempotency)

    @property
    def rewind(self) -> str:
        """The command that moves the marks of the stream's tables."""
        return command("rewind", self.stream)

    @property
    def retry(self) -> Retrier:
        return self.availability.retry
