"""One table of a stream, resolved: its location, its records and its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination, Idempotency, Mode, Stream
from tidemark.platform.files import files_at
from tidemark.source.checkpoint import Checkpoint
from tidemark.transform import DecodePlan


def command(name: str, target: str) -> str:
    """The command `name` for the stream of a target: a landing table has the name of its stream and `.landing`."""
    return f"tidemark {name} --stream {target.removesuffix('.landing')}"


@dataclass(frozen=True)
class Target:
    """One table of a stream. Without `decode` it is a raw landing table."""

    name: str
    stream: Stream
    table: TableRef
    destination: Destination
    schema: T.StructType
    checkpoint_root: str
    run: str
    decode: DecodePlan | None = None

    @property
    def adopt(self) -> str:
        """The command that takes over this table, with the stream's other ones."""
        return command("adopt", self.name)

    @property
    def rewind(self) -> str:
        """The command that moves the marks of this table and of the stream's other ones."""
        return command("rewind", self.name)

    @property
    def idempotency(self) -> Idempotency:
        """A raw landing table holds every record of the topic as it is: it has no columns to merge by, and
        copies are records too.
        """
        return self.stream.idempotency if self.decode is not None else Idempotency()

    @property
    def remembers(self) -> bool:
        """Whether its checkpoint holds fingerprints."""
        return self.idempotency.mode is Mode.FINGERPRINT

    @property
    def keeps_dead_letters(self) -> bool:
        """Whether its DLQ topic is stored in a table by a query next to its own."""
        return self.decode is not None and self.stream.dead_letter.keep_table

    def checkpoint(self, identifier: str) -> Checkpoint:
        path = f"{self.checkpoint_root.rstrip('/')}/{self.name}/{identifier}"
        return Checkpoint(files_at(path), path, self.stream.kafka_topic)
