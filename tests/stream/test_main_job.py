"""The main job on a real broker and a real table: every record once, in the table or the DLQ."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from chispa import assert_df_equality
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from pyspark.sql import SparkSession
from structlog.testing import capture_logs
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.config.stream import Stream
from tidemark.contract import failpoints as fault_points
from tidemark.contract import records
from tidemark.transform import decode_plan, transform

Make = Callable[..., StreamUnderTest]


@pytest.mark.guarantee("case: decode-01", "case: ops-04")
def test_good_records_land_and_bad_ones_are_dead_letters_when_a_topic_holds_both(stream: Make) -> None:
    events = stream(partitions=2)
    events.produce(*[good(i) for i in range(20)], BAD, None, b"")
    events.land()
    assert events.ids() == list(range(20))
    dead_letters = events.dead_letters()
    assert sorted((x["category"], x["value"]) for x in dead_letters) == [
        ("EMPTY_PAYLOAD", b""),
        ("TYPE_MISMATCH", BAD),
    ]
    (report,) = events.reports
    assert (report.read, report.accepted, report.rejected, report.skipped, report.duplicate) == (
        23,
        20,
        2,
        1,
        0,
    )


@pytest.mark.guarantee("reliability: across a restart")
def test_nothing_lands_twice_when_the_stream_runs_again(stream: Make) -> None:
    events = stream()
    events.produce(*[good(i) for i in range(5)])
    events.land()
    events.produce(*[good(i) for i in range(5, 8)], BAD)
    events.land()
    events.land()
    assert events.ids() == list(range(8))
    assert len(events.dead_letters()) == 1


@pytest.mark.guarantee(
    "case: checkpoint-01",
    "bad day: checkpoint: gone",
    "fault: The checkpoint is lost → A fresh one starts from the marks",
)
def test_the_stream_resumes_from_the_marks_when_the_checkpoint_is_gone(stream: Make) -> None:
    events = stream(partitions=3)
    events.produce(*[good(i) for i in range(30)], BAD)
    events.land()
    shutil.rmtree(events.folder / "checkpoints")
    events.produce(*[good(i) for i in range(30, 40)], BAD)
    events.land()
    assert events.ids() == list(range(40))
    assert len(events.accounted()) == 42


def test_idempotent_processing(spark: SparkSession, tmp_path: object) -> None:
    """`testIdempotentProcessing` of kafka-native-idempotency.md: the same message gives the same result."""
    stream = Stream.model_validate(
        {
            "kafka-topic": "user-events",
            "schema": {"ddl": "user_id STRING NOT NULL, event_type STRING, cob STRING"},
            "cob": {"field": "cob"},
        }
    )
    plan = decode_plan(stream, base_dir=tmp_path, spark=spark)  # type: ignore[arg-type]
    message = b'{"user_id":"123","event_type":"click","cob":"2024-01-15"}'
    envelope = ("user-events", "id", 0, 7, None, "create_time", None, message, [])
    envelopes = spark.createDataFrame([envelope], records.ENVELOPE_DDL)
    first = transform(envelopes, plan).select("route", "row.*")
    second = transform(envelopes, plan).select("route", "row.*")
    assert first.first()["route"] == "accepted"  # type: ignore[index]
    assert_df_equality(first, second)


@pytest.mark.guarantee("case: kafka-05")
def test_kafka_offset_management(stream: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """`testKafkaOffsetManagement` of kafka-native-idempotency.md: a consumer that dies before it
    acknowledges reads the message again, and no duplicate appears in Delta Lake.
    """
    events = stream()
    events.produce(good(1))
    monkeypatch.setenv(fault_points.VARIABLE, "after-append=raise")
    fault_points.forget()
    assert events.run().error is not None
    group = events.group()
    assert dict(group.read(events.topic, (0,))) == {}
    monkeypatch.delenv(fault_points.VARIABLE)
    events.land()
    assert events.ids() == [1]
    assert dict(group.read(events.topic, (0,))) == {0: 1}


@pytest.mark.guarantee(
    "case: checkpoint-04",
    "fault tolerance: the group starts afresh",
    "fault: Group offsets are reset → Nothing changes, with a warning",
)
def test_a_group_reset_is_ignored_with_a_warning_when_the_table_has_marks(stream: Make) -> None:
    events = stream()
    events.produce(*[good(i) for i in range(5)])
    events.land()
    group = events.group()
    reset = ConsumerGroupTopicPartitions(group.group, [TopicPartition(events.topic, 0, 1)])
    group.admin.client().alter_consumer_group_offsets([reset])[group.group].result(10)
    events.produce(good(5))
    with capture_logs() as logged:
        events.land()
    assert events.ids() == list(range(6))
    (warning,) = [line for line in logged if line["event"].startswith("group offsets were set back; ignored")]
    assert (warning["log_level"], warning["partitions"]) == ("warning", {0: (1, 5)})
    assert dict(group.read(events.topic, (0,))) == {0: 6}
