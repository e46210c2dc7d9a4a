"""The offsets in Spark's checkpoint of a streaming query, read from its files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from tidemark.contract.errors import LedgerError
from tidemark.contract.marks import Marks
from tidemark.platform.files import Files


@dataclass(frozen=True)
class Position:
    """The newest committed batch of a checkpoint and its end; -1 where it has none."""

    batch_id: int
    end: Marks


@dataclass(frozen=True)
class BatchClock:
    """When a batch was planned, and its watermark: milliseconds of Unix time."""

    planned_ms: int
    watermark_ms: int


@dataclass(frozen=True)
class Checkpoint:
    """A query's checkpoint folder. Read only: Spark alone writes there."""

    files: Files
    path: str
    topic: str

    def planned(self, batch_id: int) -> Marks:
        """The exclusive end offsets of a batch, which Spark records before it runs the batch.

        Raises LedgerError if they cannot be read.
        """
        text = self.files.read_text(f"{self.path}/offsets/{batch_id}")
        if text is None:
            raise LedgerError(f"checkpoint {self.path} has no offsets of batch {batch_id}")
        return _last_json_line(text, self.topic, f"{self.path}/offsets/{batch_id}")

    def clock(self, batch_id: int | None = None) -> BatchClock | None:
        """The clock of a batch, by default of the newest one planned. None where it cannot be read."""
        if batch_id is None:
            batch_id = max(self._numbers("offsets"), default=None)
            if batch_id is None:
                return None
        text = self.files.read_text(f"{self.path}/offsets/{batch_id}") or ""
        try:
            metadata = next(json.loads(line) for line in text.splitlines() if line.startswith("{"))
            return BatchClock(int(metadata["batchTimestampMs"]), int(metadata["batchWatermarkMs"]))
        except (StopIteration, ValueError, KeyError, TypeError):
            return None

    def position(self) -> Position | None:
        """The position of the checkpoint, or None if Spark could not start from it.

        Unusable: no metadata, an empty, cut off or damaged file, a committed batch without offsets, more than
        one batch planned beyond the newest committed one, or a checksum whose file is gone: Hadoop's local
        file system refuses to write that file again.
        """
        committed = self._numbers("commits")
        planned = self._numbers("offsets")
        if not planned or not _is_object(self.files.read_text(f"{self.path}/metadata") or ""):
            return None
        newest = max(committed, default=-1)
        if (newest >= 0 and newest not in planned) or max(planned) not in (newest, newest + 1):
            return None
        if newest >= 0 and not _is_whole(self.files.read_text(f"{self.path}/commits/{newest}") or ""):
            return None
        if self._checksum_beyond("commits", newest) or self._checksum_beyond("offsets", max(planned)):
            return None
        for batch_id in {newest, max(planned)} - {-1}:
            if not _is_whole(self.files.read_text(f"{self.path}/offsets/{batch_id}") or ""):
                return None
        try:
            self.planned(max(planned))
            end = self.planned(newest) if newest >= 0 else Marks()
        except LedgerError:
            return None
        return Position(newest, end)

    def initial(self) -> Marks | None:
        """The start offsets of the query's first batch; None where they cannot be read."""
        text = self.files.read_text(f"{self.path}/sources/0/0")
        try:
            return _last_json_line(text, self.topic, f"{self.path}/sources/0/0") if text else None
        except LedgerError:
            return None

    @property
    def begun(self) -> bool:
        """Whether its query has planned a batch."""
        return bool(self._numbers("offsets") or self._numbers("commits"))

    def completed(self) -> int | None:
        """The newest batch that was completed, even where Spark can no longer start from the checkpoint."""
        return max(self._numbers("commits"), default=None)

    def _checksum_beyond(self, folder: str, newest: int) -> bool:
        names = self.files.names(f"{self.path}/{folder}")
        numbers = (n.removeprefix(".").removesuffix(".crc") for n in names if n.endswith(".crc"))
        return any(n.isdigit() and int(n) > newest for n in numbers)

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(n) for n in self.files.names(f"{self.path}/{folder}") if n.isdigit())


def _is_whole(text: str) -> bool:
    """Whether Spark can read a file of its logs: a version, then lines of JSON."""
    version, *lines = text.splitlines() or [""]
    return re.fullmatch(r"v\d+", version) is not None and all(_is_object(line) for line in lines)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _last_json_line(text: str, topic: str, place: str) -> Marks:
    try:
        line = next(line for line in reversed(text.strip("\x00\n ").splitlines()) if "{" in line)
        offsets = json.loads(line[line.index("{") :])[topic]
        return Marks({int(p): int(o) for p, o in offsets.items()})
    except (StopIteration, ValueError, KeyError, AttributeError) as error:
        raise LedgerError(f"{place} is damaged, or another topic's: {error}") from error
