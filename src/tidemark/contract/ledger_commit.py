"""The entry of a ledger commit, in its `userMetadata`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidemark.contract.marks import Marks
from tidemark.contract.undone import Undone

METADATA_KEY = "tidemark"
FORMAT_VERSION = 1


class CommitKind(StrEnum):
    """Every kind but REPLAY has the next seq of the stream's chain and its marks."""

    BATCH = "batch"
    OPEN = "open"
    """An empty commit that begins a new generation after RESTORE, or the ledger of an empty table."""
    HEARTBEAT = "heartbeat"
    REWIND = "rewind"
    ADOPT = "adopt"
    REPLAY = "replay"
    """Rows below the marks, in a separate chain that never conflicts with the stream."""


@dataclass(frozen=True)
class LedgerCommit:
    """One entry of the ledger.

    `token` names the attempt (run/batch/attempt): a write succeeded if and only if its token is in
    the log after `base`, the table version at which the marks were read. `marks` is the next offset
    of each partition after this commit. `published` are the marks up to which the dead letters are
    acknowledged too (`done` in the JSON), `high_water` the highest marks ever committed (`ceiling` in the
    JSON). `checkpoint` is the id of the writing query's checkpoint, or empty. `counts` are those of the
    previous batch: a batch's own are known only after its commit.
    `jumped` lists ranges that were dead-lettered or lost instead of landed, as partition -> [from, to).
    `replay_due` is the seq of the newest commit that jumped a range because of an outage, until its dead
    letters are replayed; each commit copies it from the previous one. 0: no replay is due.
    `table_id` is Delta's id of the table of the marks. `undone` are the versions that RESTOREs reverted,
    `replay_seq` is the newest seq of the replays' chain, both as known at `base`: every commit copies them,
    so that no reader has to search the log.
    """

    kind: CommitKind
    stream: str
    topic_id: str
    token: str
    seq: int
    base: int
    marks: Marks = field(default_factory=Marks)
    published: Marks = field(default_factory=Marks)
    high_water: Marks = field(default_factory=Marks)
    checkpoint: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    jumped: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    replay_due: int = 0
    reason: str | None = None
    table_id: str | None = None
    undone: Undone = ()
    replay_seq: int = 0

    @property
    def txn_app(self) -> str:
        """Delta's application id of the commit's chain."""
        return f"tidemark:{self.stream}{':replay' if self.kind is CommitKind.REPLAY else ''}"

    @property
    def run(self) -> str:
        return self.token.split("/", 1)[0]

    def to_json(self) -> str:
        body: dict[str, Any] = {
            "v": FORMAT_VERSION,
            "kind": self.kind.value,
            "stream": self.stream,
            "topic_id": self.topic_id,
            "token": self.token,
            "seq": self.seq,
            "base": self.base,
            "marks": dict(self.marks),
            "done": dict(self.published),
            "ceiling": dict(self.high_water),
            "checkpoint": self.checkpoint,
            "counts": dict(self.counts),
            "jumped": {p: list(r) for p, r in self.jumped.items()},
            "replay_due": self.replay_due or None,
            "reason": self.reason,
            "table_id": self.table_id,
            "undone": [list(r) for r in self.undone] or None,
            "replay_seq": self.replay_seq or None,
        }
        kept = {k: v for k, v in body.items() if v not in (None, "", {})}
        return json.dumps({METADATA_KEY: kept}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> LedgerCommit | None:
        """The entry in a commit's `userMetadata`, or None where another program wrote the commit."""
        if not text or METADATA_KEY not in text:
            return None
        try:
            body = json.loads(text)[METADATA_KEY]
            return cls(
                kind=CommitKind(body["kind"]),
                stream=body["stream"],
                topic_id=body["topic_id"],
                token=body["token"],
                seq=body["seq"],
                base=body["base"],
                marks=_marks(body.get("marks")),
                published=_marks(body.get("done")),
                high_water=_marks(body.get("ceiling")),
                checkpoint=body.get("checkpoint", ""),
                counts=body.get("counts", {}),
                jumped={int(p): (r[0], r[1]) for p, r in body.get("jumped", {}).items()},
                replay_due=body.get("replay_due", 0),
                reason=body.get("reason"),
                table_id=body.get("table_id"),
                undone=tuple((r[0], r[1]) for r in body.get("undone", [])),
                replay_seq=body.get("replay_seq", 0),
            )
        except (ValueError, KeyError, TypeError):
            return None


def _marks(offsets: Mapping[str, int] | None) -> Marks:
    return Marks({int(p): o for p, o in (offsets or {}).items()})
