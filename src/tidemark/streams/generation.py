"""Opens a generation of a table's ledger: an empty commit that sets the marks, fenced like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.sink.append import append_nothing, state_after
from tidemark.sink.ledger import LedgerState
from tidemark.source.topics import Topic
from tidemark.streams.target import Target


@dataclass(frozen=True)
class Opening:
    """Why a generation begins, and what its commit carries besides the marks.

    `seq` is the next one by default. `jumped`: ranges that will not land. `table_id` is kept where not given.
    """

    reason: str
    kind: CommitKind = CommitKind.OPEN
    seq: int | None = None
    jumped: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    checkpoint: str = ""
    table_id: str | None = None

    def commit(self, state: LedgerState, *, stream: str, run: str, topic_id: str) -> LedgerCommit:
        """The empty ledger commit with the marks of `state`."""
        seq = state.seq + 1 if self.seq is None else self.seq
        token = f"{run}/{self.reason.replace(' ', '-')}/{seq}"
        following = state.next_commit(self.kind, stream=stream, topic_id=topic_id, token=token)
        return replace(
            following,
            seq=seq,
            jumped=self.jumped,
            checkpoint=self.checkpoint,
            reason=self.reason,
            table_id=following.table_id if self.table_id is None else self.table_id,
        )


def open_generation(
    spark: SparkSession, target: Target, topic: Topic, state: LedgerState, opening: Opening
) -> LedgerState:
    """Commit the marks of `state`, which the caller has set, on top of the ledger that it was read from.

    Returns the state after the commit. Raises as `sink.append.append`.
    """
    ledger_commit = opening.commit(state, stream=target.name, run=target.run, topic_id=topic.id)
    committed = append_nothing(spark, target.table, ledger_commit, target.schema)
    return replace(state_after(committed, state), restored=False)
