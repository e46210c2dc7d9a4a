"""Records that their table would refuse: each is rejected by itself, and the others land."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.stream_under_test import StreamUnderTest, good

from tidemark.contract.errors import NonRetriableError
from tidemark.contract.events import Event, StreamObserver, StreamStarted

Make = Callable[..., StreamUnderTest]
BY_HAND = (
    "id INT, name VARCHAR(4) NOT NULL, stream_topic_id STRING, stream_partition INT, stream_offset BIGINT,"
    " message_timestamp TIMESTAMP, source_topic STRING, processing_version STRING"
)


class AltersAtStart(StreamObserver):
    """Changes the table once, when the stream has looked at it and has not yet read."""

    def __init__(self, events: StreamUnderTest, change: str) -> None:
        self.events, self.change = events, change

    def emit(self, event: Event) -> None:
        if not isinstance(event, StreamStarted):
            return
        change, self.change = self.change, ""
        if change:
            alter(self.events, change)


def alter(events: StreamUnderTest, change: str) -> None:
    events.spark.sql(f"ALTER TABLE {events.table.sql} {change}")


def run_with(events: StreamUnderTest, change: str) -> BaseException | None:
    ingest = events.ingest()
    ingest.observers = [*ingest.observers, AltersAtStart(events, change)]
    return ingest.run()[0].error


def dead_letters(events: StreamUnderTest) -> dict[int, str]:
    return {int(x["offset"]): x["category"] for x in events.dead_letters()}


def test_a_value_that_names_no_folder_costs_its_record_alone(stream: Make) -> None:
    events = stream(
        destination={"path": "lake/events", "partition-columns": ["Part"]},
        enrich={"part": "name"},
        schema={"ddl": "id INT NOT NULL, name STRING"},
    )
    events.options["destination"]["bucket"] = str(events.folder)
    long = '{"id": 3, "name": "%s"}' % ("%" * 90)
    events.produce(
        good(1), b'{"id": 2, "name": "a\\u0000"}', long.encode(), b'{"id": 4, "name": ""}', good(5)
    )
    events.land()
    assert events.ids() == [1, 5]
    assert dead_letters(events) == dict.fromkeys((1, 2, 3), "PARTITION_VALUE")
    assert {x["stage"] for x in events.dead_letters()} == {"validate"}
    assert events.reports[0].read == 5


def test_a_constraint_of_the_table_costs_its_record_alone(stream: Make) -> None:
    events = stream(schema={"ddl": "id INT, name STRING"})
    events.spark.sql(f"CREATE TABLE {events.table.sql} ({BY_HAND}) USING delta")
    events.produce(good(1))
    events.land()
    alter(events, "ADD CONSTRAINT small CHECK (id < 100)")
    alter(events, "ADD CONSTRAINT `divides it` CHECK (100 / id > 0)")
    no_id, long = b'{"name": "null"}', b'{"id": 4, "name": "12345"}'
    events.produce(good(2), good(100), b'{"id": 0, "name": "x"}', b'{"id": 3}', no_id, long)
    events.land()
    assert events.ids() == [1, 2]
    by_offset = {int(x["offset"]): x for x in events.dead_letters()}
    assert {o: x["category"] for o, x in by_offset.items()} == {
        2: "RULE_VIOLATED",
        3: "TRANSFORM_FAILED",
        4: "RULE_VIOLATED",
        5: "RULE_VIOLATED",
        6: "RULE_VIOLATED",
    }
    assert "CHECK constraint small of the table is not true: id < 100" in by_offset[2]["message"]
    assert "NOT NULL of name" in by_offset[4]["message"]
    assert "VARCHAR(4) of name" in by_offset[6]["message"]

    # One that is added between the start and the batch: the stream starts again, and knows it.
    events.produce(good(8), good(9))
    assert run_with(events, "ADD CONSTRAINT not_eight CHECK (id <> 8)") is None
    assert events.ids() == [1, 2, 9]
    assert dead_letters(events)[7] == "RULE_VIOLATED"


def test_the_stream_stops_with_the_values_when_a_constraint_on_a_clock_is_violated(
    stream: Make,
) -> None:
    events = stream()
    events.produce(good(1))
    events.land()
    alter(events, "ADD CONSTRAINT clock CHECK (id <> 7 OR unix_timestamp() < 0)")
    events.produce(good(6), good(7))
    error = events.run().error
    assert isinstance(error, NonRetriableError)
    assert "partition 0: offsets 1 to 2" in error.message
    assert "CHECK constraint clock" in error.message
    assert "- id : 7" in error.message
    assert events.ids() == [1]
    alter(events, "DROP CONSTRAINT clock")
    events.land()
    assert events.ids() == [1, 6, 7]


@pytest.mark.parametrize("path", ["./events//here", "file"])
def test_a_table_is_one_in_whatever_spelling_its_place_is_written(stream: Make, path: str) -> None:
    events = stream()
    written = {"bucket": str(events.folder), "path": path}
    if path == "file":
        written = {"bucket": f"file://{events.folder}/", "path": "events//here/."}
    events.produce(good(1))
    events.land(destination=written)
    events.produce(good(2))
    events.land(destination={"bucket": f"{events.folder}//", "path": "events/here"})
    landed = events.spark.read.format("delta").load(f"{events.folder}/events/here")
    assert sorted(r["id"] for r in landed.select("id").collect()) == [1, 2]
