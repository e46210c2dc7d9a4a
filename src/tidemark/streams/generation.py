"""Opens a generation of a table's ledger: an empty commit that sets the marks, fenced like any other."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.contract.marks import Marks
from tidemark.sink.append import append_nothing, state_after
from tidemark.sink.ledger import LedgerState
from tidemark.source.topics import Topic
from tidemark.streams.target import Target


def open_generation(
    spark: SparkSession,
    target: Target,
    topic: Topic,
    state: LedgerState,
    *,
    marks: Marks,
    published: Marks,
    high_water: Marks,
    reason: str,
    kind: CommitKind = CommitKind.OPEN,
    jumped: dict[int, tuple[int, int]] | None = None,
    seq: int | None = None,
    checkpoint: str = "",
    table_id: str | None = None,
) -> LedgerState:
    """Make the commit of `generation_after`, and return the state after it."""
    ledger_commit = generation_after(
        state,
        stream=target.name,
        run=target.run,
        topic_id=topic.id,
        marks=marks,
        published=published,
        high_water=high_water,
        reason=reason,
        kind=kind,
        jumped=jumped,
        seq=seq,
        checkpoint=checkpoint,
        table_id=table_id,
    )
    committed = append_nothing(spark, target.table, ledger_commit, target.schema)
    return replace(state_after(committed, replace(state, high_water=high_water)), restored=False)


def generation_after(
    state: LedgerState,
    *,
    stream: str,
    run: str,
    topic_id: str,
    marks: Marks,
    published: Marks,
    high_water: Marks,
    reason: str,
    kind: CommitKind = CommitKind.OPEN,
    jumped: dict[int, tuple[int, int]] | None = None,
    seq: int | None = None,
    checkpoint: str = "",
    table_id: str | None = None,
) -> LedgerCommit:
    """The empty ledger commit that sets the marks, fenced like any other. `table_id` is kept where not given."""
    seq = state.seq + 1 if seq is None else seq
    return LedgerCommit(
        kind=kind,
        stream=stream,
        topic_id=topic_id,
        token=f"{run}/{reason.replace(' ', '-')}/{seq}",
        seq=seq,
        base=state.version,
        marks=marks,
        published=published,
        high_water=high_water,
        checkpoint=checkpoint,
        jumped=jumped or {},
        replay_due=state.newest.replay_due if state.newest else 0,
        reason=reason,
        table_id=table_id if table_id is not None or state.newest is None else state.newest.table_id,
        undone=state.undone,
        replay_seq=state.replay_seq,
    )
