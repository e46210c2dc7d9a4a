"""The topic and the table are known by their ids: another one under the same name is not the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from delta.tables import DeltaTable
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.contract import failpoints as fault_points
from tidemark.contract import records
from tidemark.contract.errors import LedgerError, NonRetriableError
from tidemark.dev.producers import create_topic, delete_topic
from tidemark.ingest.batch import handler as batch_module
from tidemark.operations.adopt import MarksFrom, adopt, adoptable_marks
from tidemark.sink.append import append_nothing
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.targets import targets_of

Make = Callable[..., StreamUnderTest]


@pytest.mark.guarantee(
    "case: kafka-02",
    "fault: The topic is created again in mid-batch → What was read of the new one lands once, under its id",
)
@pytest.mark.parametrize("dies", [False, True])
def test_no_record_lands_twice_when_the_topic_is_created_again_under_a_batch(
    stream: Make, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """The batch reads the new topic's first records and lands them under the old id."""
    fault_points.forget()
    events = stream()
    events.produce(good(0))
    events.land()
    events.produce(good(1), good(2))
    original = batch_module.IngestBatch._append

    def recreate_first(self: batch_module.IngestBatch, *args: object) -> object:
        monkeypatch.setattr(batch_module.IngestBatch, "_append", original)
        delete_topic(events.broker.bootstrap, events.topic)
        create_topic(events.broker.bootstrap, events.topic, 1)
        events.produce(good(10), good(11), BAD, good(12))
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, "_append", recreate_first)
    if dies:
        monkeypatch.setenv(fault_points.VARIABLE, "after-append=raise")
    assert isinstance(events.run().error, fault_points.InjectedFault if dies else NonRetriableError)
    monkeypatch.delenv(fault_points.VARIABLE, raising=False)
    old = events.state().newest
    assert old is not None
    assert 11 in events.ids()
    assert events.dead_letters() == []
    events.land()
    assert events.ids() == [0, 10, 11, 12]
    of_the_old = events.rows.where(f"{records.TOPIC_ID} = '{old.topic_id}'")
    assert [r["id"] for r in of_the_old.collect()] == [0]
    assert [x["offset"] for x in events.dead_letters()] == ["2"]


@pytest.mark.guarantee(
    "fault: The table is emptied or replaced, or is another one → The stream stops and asks"
)
def test_the_stream_stops_and_asks_when_the_marks_belong_to_another_table(stream: Make) -> None:
    events = stream()
    events.produce(good(0))
    events.land()
    state = events.state()
    newest = state.newest
    assert newest is not None
    assert newest.table_id == DeltaTable.forPath(events.spark, str(events.table.path)).detail().first()["id"]
    other = replace(newest, seq=newest.seq + 1, base=state.version, token="r/other/1", table_id="another")
    append_nothing(events.spark, events.table, other, events.rows.schema)
    events.produce(good(1))
    error = events.run().error
    assert isinstance(error, LedgerError)
    assert "another table" in error.message
    (target,) = targets_of(events.spark, events.settings(), NAME, run="adopting")
    admin = KafkaAdmin(events.settings().kafka)
    adopt(events.spark, admin, target, adoptable_marks(events.spark, admin, target, MarksFrom.KEPT))
    events.land()
    assert events.ids() == [0, 1]
