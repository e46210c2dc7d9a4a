"""Records whose producer's clock is wrong, and a table that forgets what was written to it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.contract import records
from tidemark.contract.errors import DataLoss, LedgerError
from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.query import dead_letter_target, keep_dead_letters
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dead_letters.files import export
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, create_topic
from tidemark.operations.backfill import backfill
from tidemark.operations.rewind import RewindTarget, rewind
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.targets import targets_of

HOUR_MS = 3_600_000
NEVER = str(2**63 - 1)


@pytest.mark.guarantee(
    "case: time-05",
    "fault: A producer's clock is hours ahead, or it sends microseconds as milliseconds → "
    "Its records land; dead letters are stamped when they are sent",
)
def test_future_records_land_and_dead_letters_have_the_time_when_they_are_sent(
    spark: SparkSession, broker: EmbeddedBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    events = StreamUnderTest(spark, broker, topic(message_timestamp_after_max_ms=NEVER), tmp_path)
    # The DLQ topic refuses what is stamped more than an hour ahead.
    create_topic(broker.bootstrap, f"{events.topic}-dlq", 1, message_timestamp_after_max_ms=str(HOUR_MS))
    now = int(time.time() * 1000)
    ahead, micros = now + 2 * HOUR_MS, now * 1000
    events.produce(
        SampleRecord(good(1), timestamp_ms=ahead),
        SampleRecord(BAD, timestamp_ms=ahead),
        SampleRecord(good(2), timestamp_ms=micros),
        SampleRecord(BAD, timestamp_ms=micros),
    )
    events.land()
    assert events.ids() == [1, 2]
    stamps = [r[0] for r in events.rows.orderBy("id").selectExpr("unix_millis(message_timestamp)").collect()]
    assert stamps == [ahead, micros]
    assert [(x["offset"], x["timestamp"]) for x in events.dead_letters()] == [
        ("1", str(ahead)),
        ("3", str(micros)),
    ]
    (report,) = events.reports
    assert report.newest == datetime.max

    target = dead_letter_target(spark, events.settings(), "events", run="r")
    keep_dead_letters(spark, events.settings(), target)
    out = StringIO()
    assert export(DeadLetterTable(events.table).dead_letters(spark), out) == 2
    timestamps = [json.loads(line)["message_timestamp"] for line in out.getvalue().splitlines()]
    assert sorted(timestamps)[1] == "9999-12-31T23:59:59.999999"


def test_a_record_that_spark_cannot_read_for_its_time_is_named_with_what_to_do(
    spark: SparkSession, broker: EmbeddedBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Nanoseconds sent as milliseconds: Spark's reader fails the whole batch, whatever reads it."""
    events = StreamUnderTest(spark, broker, topic(message_timestamp_after_max_ms=NEVER), tmp_path)
    events.produce(good(0))
    events.land()
    nanos = time.time_ns()
    events.produce(good(1), SampleRecord(good(2), timestamp_ms=nanos), good(3), BAD)
    error = events.run().error
    assert isinstance(error, DataLoss)
    assert "whose timestamp is after the year 294246" in error.message
    assert "partition 0, offset 2" in error.message
    assert "tidemark rewind --stream events --to-offset 0=3; then" in str(error.hint)
    assert str(error.hint).endswith("tidemark backfill --stream events --range 0=1..2")

    settings, admin = events.settings(), KafkaAdmin(events.settings().kafka)
    (target,) = targets_of(spark, settings, "events", run="by-hand")
    rewind(spark, admin, target, RewindTarget(offsets={0: 3}))
    backfill(spark, settings, target, start=Marks({0: 1}), end=Marks({0: 2}))
    events.land()
    assert events.ids() == [0, 1, 3]
    assert [x["offset"] for x in events.dead_letters()] == ["4"]

    # Of a second one the broker does not say where it is.
    events.produce(good(5), SampleRecord(good(6), timestamp_ms=nanos))
    again = events.run().error
    assert isinstance(again, DataLoss)
    assert "partition 0, one of the offsets 5 to 6" in again.message
    assert "lower processing.max-batch-size" in str(again.hint)


@pytest.mark.guarantee("case: time-04")
@pytest.mark.parametrize(
    ("configs", "sent_at", "kind"),
    [({}, -1, "create_time"), ({"message_timestamp_type": "LogAppendTime"}, 1, "log_append_time")],
)
def test_a_time_that_no_producer_gave_is_never_taken_for_the_events(
    spark: SparkSession,
    broker: EmbeddedBroker,
    topic: Callable[..., str],
    tmp_path: Path,
    configs: dict[str, str],
    sent_at: int,
    kind: str,
) -> None:
    events = StreamUnderTest(spark, broker, topic(**configs), tmp_path)
    events.options = {
        "schema": {"ddl": "id INT, cob STRING"},
        # Of a record whose time is known, this date would be too far ahead.
        "cob": {},
        "landing": {"destination": {"bucket": str(tmp_path), "path": "raw"}},
    }
    events.produce(SampleRecord(b'{"id": 1, "cob": "2999-01-01"}', timestamp_ms=sent_at))
    assert [o.error for o in events.ingest().run()] == [None, None]
    assert events.ids() == [1]
    assert events.dead_letters() == []
    raw = spark.read.format("delta").load(str(tmp_path / "raw")).first()
    decoded = events.rows.first()
    assert raw is not None
    assert decoded is not None
    assert raw[records.TIMESTAMP_TYPE] == kind
    assert raw[records.TIMESTAMP] == decoded[records.TIMESTAMP]
    if sent_at < 0:
        assert raw[records.TIMESTAMP] is None
    else:
        assert raw[records.TIMESTAMP].year > 2000, "the broker's time"


@pytest.mark.guarantee("case: time-06")
def test_a_row_with_an_early_stamp_is_delivered_when_it_is_committed_later(
    stream: Callable[..., StreamUnderTest],
) -> None:
    """No column says when a row was committed: a reader goes by the table's versions."""
    events = stream()
    nine = int(datetime(2026, 3, 1, 9, tzinfo=UTC).timestamp() * 1000)
    seen = str(events.folder / "seen")

    def read_on() -> list[int]:
        rows = events.spark.readStream.format("delta").load(str(events.table.path))
        query = (
            rows.writeStream.format("delta")
            .option("checkpointLocation", f"{seen}-checkpoint")
            .trigger(availableNow=True)
            .start(seen)
        )
        query.awaitTermination()
        return sorted(r["id"] for r in events.spark.read.format("delta").load(seen).collect())

    events.produce(SampleRecord(good(1), timestamp_ms=nine + 15 * 60_000))
    events.land()
    assert read_on() == [1]
    events.produce(SampleRecord(good(2), timestamp_ms=nine + 5 * 60_000))
    events.land()
    assert read_on() == [1, 2]


@pytest.mark.guarantee("case: checkpoint-05")
def test_a_table_that_forgets_its_transactions_is_refused(stream: Callable[..., StreamUnderTest]) -> None:
    events = stream()
    events.produce(good(1))
    events.land()
    events.spark.sql(
        f"ALTER TABLE {events.table.sql} SET TBLPROPERTIES"
        " ('delta.setTransactionRetentionDuration' = 'interval 1 seconds')"
    )
    events.produce(good(2))
    with pytest.raises(LedgerError, match="setTransactionRetentionDuration") as refused:
        events.land()
    assert "UNSET TBLPROPERTIES" in str(refused.value.hint)
    assert events.ids() == [1]
