"""The DLQ table as a stream's source: each dead letter is seen once, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.dead_letters.conftest import DeadLetters
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.dead_letters.dlq_table.query import dead_letter_target
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.operations.maintain import Maintenance, maintain

FIXED = PayloadEdit(expression="replace(payload, '\"not a number\"', '7')")


@pytest.mark.guarantee("case: time-06", "case: replay-02")
def test_a_reader_sees_each_dead_letter_once_when_statuses_change_and_old_ones_go(
    stream: Callable[..., StreamUnderTest], dead_letters: Callable[[StreamUnderTest], DeadLetters]
) -> None:
    flow = stream()
    kept = dead_letters(flow)
    seen = str(flow.folder / "seen")

    def bring(*values: bytes) -> None:
        flow.produce(*values)
        flow.land()
        kept.keep()

    def read(**options: str) -> list[int]:
        """Offsets that a reader with a checkpoint of its own has seen by now."""
        source = flow.spark.readStream.format("delta").options(**options).load(str(kept.table.facts.path))
        query = (
            source.select("stream_offset")
            .writeStream.format("delta")
            .option("checkpointLocation", str(flow.folder / "reader"))
            .trigger(availableNow=True)
            .start(seen)
        )
        query.awaitTermination()
        return sorted(r[0] for r in flow.spark.read.format("delta").load(seen).collect())

    bring(BAD, BAD, good(1))
    assert read() == [0, 1]
    assert kept.replay(Selection(dead_letters=(f"{flow.topic}:0:0",)), edit=FIXED).resolved == 1
    bring(BAD)
    flow.spark.sql(f"OPTIMIZE {kept.table.facts.sql}")
    assert read() == [0, 1, 3]

    target = dead_letter_target(flow.spark, flow.settings(), NAME, run="upkeep")
    in_two_days = datetime.now(UTC).date() + timedelta(days=2)
    forgetting = Maintenance(today=in_two_days, forget_letters_after=timedelta(days=1))
    maintained = {d.what: d.files for d in maintain(flow.spark, target, forgetting)}
    assert maintained["dead letters forgotten"] == 1
    assert kept.statuses() == [(1, DeadLetterStatus.NEW), (3, DeadLetterStatus.NEW)]
    assert flow.spark.table(kept.table.statuses.sql).where("stream_offset = 0").isEmpty()
    assert flow.ids() == [1, 7], "what it landed stays"
    bring(BAD)
    assert read(skipChangeCommits="true") == [0, 1, 3, 4]
