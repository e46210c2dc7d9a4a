"""One table of a stream, resolved: where it is, what lands in it, where its checkpoints are."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as T

from tidemark.config.destination import TableRef
from tidemark.config.stream import Destination, Mode, Stream
from tidemark.platform.files import files_at
from tidemark.source.checkpoint import Checkpoint
from tidemark.transform import DecodePlan


@dataclass(frozen=True)
class Target:
    """One table of a stream, and what a start of it needs to know. Without `decode` it is a raw landing."""

    name: str
    stream: Stream
    table: TableRef
    destination: Destination
    schema: T.StructType
    checkpoint_root: str
    run: str
    decode: DecodePlan | None = None

    @property
    def remembers(self) -> bool:
        """Whether its checkpoint holds fingerprints. A raw landing table holds copies too."""
        return self.decode is not None and self.stream.idempotency.mode is Mode.FINGERPRINT

    def checkpoint(self, identifier: str) -> Checkpoint:
        path = f"{self.checkpoint_root.rstrip('/')}/{self.name}/{identifier}"
        return Checkpoint(files_at(path), path, self.stream.kafka_topic)
