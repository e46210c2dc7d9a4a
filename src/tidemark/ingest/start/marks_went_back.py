"""What has to follow where marks go back, before a stream writes below the highest ones again."""

from __future__ import annotations

import structlog
from pyspark.sql import SparkSession

from tidemark.contract.ledger_commit import CommitKind, LedgerCommit
from tidemark.dead_letters.kept.table import DeadLetterTable
from tidemark.platform.local_rows import no_rows
from tidemark.sink.append import Committed
from tidemark.sink.ledger import LedgerState, read_state
from tidemark.sink.replay_commit import append_replayed, in_replay_chain
from tidemark.sink.table_log import DeltaLog
from tidemark.source.topics import Topic
from tidemark.streams.target import Target

log = structlog.get_logger(__name__)

BY = "tidemark, at a start"


def reopen_undone(spark: SparkSession, target: Target, state: LedgerState) -> None:
    """Dead letters whose row a RESTORE took away are new again.

    The ledger passes on what was undone, so this does not depend on how far the log's history reaches, and a
    start that follows an interrupted one does it again.
    """
    if target.decode is None or not state.undone:
        return
    count = DeadLetterTable(target.table).reopen_undone(spark, state.undone, by=BY)
    if count:
        log.warning(
            "dead letters reopened, as a RESTORE took their rows", stream=target.name, dead_letters=count
        )


def reopen_all(spark: SparkSession, target: Target, topic: Topic) -> None:
    """A table that begins anew has the rows of no dead letter."""
    if target.decode is None:
        return
    note = "the table was begun anew, without its row"
    count = DeadLetterTable(target.table).reopen_all(spark, topic.id, by=BY, note=note)
    if count:
        log.warning(
            "dead letters reopened, as their table begins anew", stream=target.name, dead_letters=count
        )


def fence_replays(spark: SparkSession, target: Target, topic: Topic, state: LedgerState) -> None:
    """Refuse replays that decided by older marks, where this start may land the same records.

    An empty commit in their chain. After `state` was read and before the first batch: a replay that decided
    before `state` is refused from here on, one that decides later sees where this start resumes.
    """
    if not may_land_replayed(state) or target.decode is None or target.stream.idempotency.merge_keys:
        return

    def attempt(now: LedgerState, seq: int) -> Committed:
        ledger_commit = LedgerCommit(
            kind=CommitKind.REPLAY,
            stream=target.name,
            topic_id=topic.id,
            token=f"{target.run}/fence/{seq}",
            seq=seq,
            base=now.version,
            reason="replays fenced",
        )
        return append_replayed(no_rows(spark, target.schema), target.table, ledger_commit)

    in_replay_chain(target.table, lambda: read_state(DeltaLog(spark, target.table)), attempt)


def may_land_replayed(state: LedgerState) -> bool:
    """Whether a start reads records again that a replay may have taken for completed."""
    return not state.resume >= state.high_water.highest(state.marks)
