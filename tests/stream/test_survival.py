"""What the main job survives: lost checkpoints, zombies, restored tables, recreated topics, retention."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.stream_under_test import BAD, NAME, StreamUnderTest, good

from tidemark.contract import failpoints as fault_points
from tidemark.contract import records
from tidemark.contract.errors import DataLoss, Fenced, LedgerError, NonRetriableError
from tidemark.contract.ledger_commit import CommitKind
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, admin, create_topic, delete_topic
from tidemark.ingest import application as ingest_module
from tidemark.ingest.application import Ingest
from tidemark.ingest.batch import handler as batch_module
from tidemark.operations.rewind import RewindTarget, rewind
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.targets import targets_of
from tidemark.transform import DecodePlan, transform

Make = Callable[..., StreamUnderTest]
FIVE_A_BATCH = {"max-batch-size": 5, "batch-size": 1}


def as_a_new_process(spark: SparkSession) -> None:
    """What Delta knows of tables by heart is forgotten."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture(autouse=True)
def no_faults() -> None:
    fault_points.forget()


@pytest.mark.guarantee(
    "case: checkpoint-01",
    "fault: A writer dies after the append, before the dead letters are out → They are published at the next start",
)
@pytest.mark.parametrize("checkpoint_lost", [False, True])
@pytest.mark.parametrize("point", ["after-append", "after-publish"])
def test_no_dead_letter_is_lost_when_the_writer_dies_after_the_append(
    stream: Make, monkeypatch: pytest.MonkeyPatch, point: str, checkpoint_lost: bool
) -> None:
    events = stream()
    events.produce(*[good(i) for i in range(6)], BAD, BAD)
    monkeypatch.setenv(fault_points.VARIABLE, f"{point}=raise")
    assert isinstance(events.run().error, fault_points.InjectedFault)
    monkeypatch.delenv(fault_points.VARIABLE)
    if checkpoint_lost:
        shutil.rmtree(events.folder / "checkpoints")
    events.land()
    assert events.ids() == list(range(6))
    assert {x["offset"] for x in events.dead_letters()} == {"6", "7"}


@pytest.mark.guarantee("case: checkpoint-03")
def test_a_batch_has_the_bounds_it_had_when_its_commit_is_gone_from_the_checkpoint(stream: Make) -> None:
    events = stream()
    events.produce(good(0), good(1), good(2), good(3), BAD)
    events.land(processing={"max-batch-size": 3, "batch-size": 1})
    (checkpoint,) = (events.folder / "checkpoints/events").iterdir()
    (checkpoint / "commits/1").unlink()
    (checkpoint / "commits/.1.crc").unlink(missing_ok=True)
    events.produce(good(10), good(11))
    events.land()
    assert [(r.read, r.accepted) for r in events.reports] == [(2, 0), (2, 2)]
    assert events.ids() == [0, 1, 2, 3, 10, 11]


@pytest.mark.guarantee(
    "fault: Schema or rules change between a crash and the restart → What was rejected and is right now lands"
)
def test_what_was_rejected_lands_when_rules_change_between_a_crash_and_the_restart(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream()
    events.produce(good(1), b'{"id": 2}', good(3))
    monkeypatch.setenv(fault_points.VARIABLE, "after-append=raise")
    rule = {"name": "named", "expr": "name IS NOT NULL"}
    assert isinstance(events.run(rules=[rule]).error, fault_points.InjectedFault)
    monkeypatch.delenv(fault_points.VARIABLE)
    assert events.ids() == [1, 3]
    events.land()
    assert events.ids() == [1, 2, 3]


@pytest.mark.guarantee("fault: A write fails once and is retried → Counts and dead letters stay whole")
def test_counts_and_dead_letters_are_whole_when_a_write_fails_once_and_is_retried(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream(partitions=2)
    events.produce(*[good(i) for i in range(9)], BAD)
    monkeypatch.setenv(fault_points.VARIABLE, "before-append=raise,before-publish=raise")
    events.options["processing"] = {"max-retries": 3}
    outcome = events.run()
    # A fault before the publish ends the batch; before the append it is retried inside.
    assert isinstance(outcome.error, fault_points.InjectedFault)
    events.land()
    assert events.ids() == list(range(9))
    assert len(events.dead_letters()) == 1


@pytest.mark.guarantee(
    "case: merge-03",
    "fault tolerance: a task of it fails",
    "fault: A task fails, or a stage runs twice → Counts and dead letters stay whole",
)
@pytest.mark.parametrize("failures", [1, 3])
def test_counts_and_dead_letters_are_whole_when_a_task_fails(
    stream: Make, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """One failure is Spark's own retry of the task; three fail the write, and it is tried again."""
    events = stream(partitions=2)
    events.produce(*[SampleRecord(good(i), partition=i % 2) for i in range(40)])
    events.produce(*[SampleRecord(BAD, partition=i % 2) for i in range(10)])
    marker = events.folder / "failures"
    marker.write_text("")

    @F.udf("binary")
    def flaky(value):  # type: ignore[no-untyped-def]
        if value == BAD and len(marker.read_text()) < failures:
            marker.write_text(marker.read_text() + "x")
            raise OSError("a task that fails")
        return value

    def failing_transform(envelopes: DataFrame, plan: DecodePlan) -> DataFrame:
        return transform(envelopes, plan).withColumn(records.PAYLOAD, flaky(records.PAYLOAD))

    monkeypatch.setattr(ingest_module, "transform", failing_transform)
    events.land()
    assert marker.read_text() == "x" * failures
    assert events.ids() == list(range(40))
    assert len({(x["partition"], x["offset"]) for x in events.dead_letters()}) == 10
    (report,) = events.reports
    assert (report.read, report.accepted, report.rejected) == (50, 40, 10)


@pytest.mark.guarantee(
    "fault tolerance: writers race",
    "fault: A second writer runs, on one machine or on S3; a frozen one wakes up after another took over → "
    "One stops, fenced; nothing doubles",
)
def test_the_older_writer_is_fenced_when_another_committed_since_it_read_the_marks(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream()
    events.produce(*[good(i) for i in range(4)])
    zombie = events.ingest()
    original = batch_module.IngestBatch._append

    def append_late(self: batch_module.IngestBatch, *args: object) -> object:
        if self.plan.run == zombie.run_id:
            monkeypatch.setattr(batch_module.IngestBatch, "_append", original)
            shutil.move(events.folder / "checkpoints", events.folder / "checkpoints-of-the-zombie")
            events.land()
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, "_append", append_late)
    (outcome,) = zombie.run()
    assert isinstance(outcome.error, Fenced)
    assert "another writer" in outcome.error.message
    assert events.ids() == [0, 1, 2, 3]


@pytest.mark.guarantee(
    "case: checkpoint-02",
    "bad day: RESTORE",
    "fault: The table is restored, stopped or live → The marks go back with it; missing rows land again once",
)
@pytest.mark.parametrize("by", ["version", "timestamp"])
def test_missing_records_land_again_once_when_the_table_was_restored(stream: Make, by: str) -> None:
    events = stream()
    for start in (0, 4, 8):
        events.produce(*[good(i) for i in range(start, start + 4)], BAD)
    events.land(processing=FIVE_A_BATCH)
    commit = [e for e in _entries(events) if e.ledger_commit is not None][-3]
    place = commit.version if by == "version" else f"'{commit.timestamp}'"
    events.spark.sql(f"RESTORE TABLE {events.table.sql} TO {by} AS OF {place}")
    assert events.ids() == list(range(4))
    events.produce(good(12))
    events.land()
    assert events.ids() == list(range(13))
    kinds = [commit.kind for commit in events.ledger_commits()]
    assert kinds[-3:] == [CommitKind.OPEN, CommitKind.REPLAY, CommitKind.BATCH], "replays are fenced between"
    events.land()
    assert events.ids() == list(range(13))


@pytest.mark.guarantee(
    "case: checkpoint-02",
    "fault: The table is restored, stopped or live → The marks go back with it; missing rows land again once",
)
def test_missing_records_land_again_when_the_table_is_restored_while_the_stream_runs(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream()
    events.produce(*[good(i) for i in range(10)])
    events.land(processing=FIVE_A_BATCH)
    restore_to = [e.version for e in _entries(events) if e.ledger_commit is not None][-2]
    original = batch_module.IngestBatch._append
    restored: list[bool] = []

    def append_after_restore(self: batch_module.IngestBatch, *args: object) -> object:
        if not restored:
            restored.append(True)
            DeltaTable.forPath(events.spark, str(events.table.path)).restoreToVersion(restore_to)
        return original(self, *args)

    monkeypatch.setattr(batch_module.IngestBatch, "_append", append_after_restore)
    events.produce(*[good(i) for i in range(10, 14)])
    events.land()
    assert restored
    assert events.ids() == list(range(14))


@pytest.fixture(scope="module")
def _landed(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> StreamUnderTest:
    create_topic(broker.bootstrap, "landed-once", 1)
    events = StreamUnderTest(spark, broker, "landed-once", tmp_path_factory.mktemp("landed-once") / "now")
    events.produce(good(1))
    events.land()
    shutil.copytree(events.folder, events.folder.with_name("then"))
    return events


@pytest.fixture
def landed(_landed: StreamUnderTest) -> StreamUnderTest:
    """A stream that has landed one record; a second one waits. Its files are as they were, for each test."""
    shutil.rmtree(_landed.folder)
    shutil.copytree(_landed.folder.with_name("then"), _landed.folder)
    as_a_new_process(_landed.spark)
    _landed.produce(good(2))
    return _landed


@pytest.mark.guarantee(
    "bad day: table emptied",
    "fault: The table is emptied or replaced, or is another one → The stream stops and asks",
)
@pytest.mark.parametrize("how", ["overwrite", "delete", "replace"])
def test_the_stream_stops_and_asks_when_the_table_was_emptied_or_replaced(
    landed: StreamUnderTest, how: str
) -> None:
    if how == "overwrite":
        landed.rows.limit(0).write.format("delta").mode("overwrite").save(str(landed.table.path))
    elif how == "delete":
        landed.spark.sql(f"DELETE FROM {landed.table.sql}")
    else:
        # With the columns that it had: else these stop the stream.
        table = landed.table.sql
        landed.spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT * FROM {table} LIMIT 0")
    error = landed.run().error
    assert isinstance(error, LedgerError)
    assert error.hint
    if how == "delete":
        admin = KafkaAdmin(landed.settings().kafka)
        (target,) = targets_of(landed.spark, landed.settings(), NAME, run="by-hand")
        with pytest.raises(LedgerError, match="was emptied"):
            rewind(landed.spark, admin, target, RewindTarget(offsets={0: 1}))


def test_rows_of_the_newest_commit_land_again_when_its_damaged_file_was_moved_away(
    stream: Make,
) -> None:
    events = stream()
    log = events.folder / "lake/events/_delta_log"
    events.produce(good(0), BAD)
    events.land()
    newest = max(log.glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:500])
    (log / f".{newest.name}.crc").unlink()
    # As a process that starts anew: it has not read the log yet.
    as_a_new_process(events.spark)
    events.produce(good(1))
    error = events.run().error
    assert isinstance(error, LedgerError)
    assert newest.name in error.message
    for file in (*log.glob(f"{newest.stem}*"), *log.glob(f".{newest.stem}*")):
        file.unlink()
    events.land()
    assert events.ids() == [0, 1]
    assert len(events.accounted()) == 3


@pytest.mark.guarantee(
    "case: kafka-01",
    "case: kafka-02",
    "bad day: topic created again",
    "fault: The topic is deleted and created again → It counts as a new source; all its records land",
)
def test_all_records_of_a_topic_created_again_land_when_the_stream_was_stopped(stream: Make) -> None:
    events = stream()
    events.produce(good(0), good(1), good(2))
    events.land()
    for number, ids in enumerate(([10, 11], [20, 21, 22, 23, 24]), start=1):
        delete_topic(events.broker.bootstrap, events.topic)
        create_topic(events.broker.bootstrap, events.topic, 1)
        events.produce(*[good(i) for i in ids])
        events.land()
        assert set(ids) <= set(events.ids())
        assert len({topic_id for topic_id, _, _ in events.landed()}) == number + 1
    assert len(events.ids()) == 10


@pytest.mark.guarantee(
    "case: kafka-01",
    "fault: The topic is deleted and created again → It counts as a new source; all its records land",
)
def test_the_stream_stops_and_the_next_start_lands_all_when_its_topic_is_recreated(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream()
    events.produce(good(0), good(1))
    original = batch_module.IngestBatch._bounds

    def recreate_first(self: batch_module.IngestBatch, batch_id: int) -> object:
        monkeypatch.setattr(batch_module.IngestBatch, "_bounds", original)
        delete_topic(events.broker.bootstrap, events.topic)
        create_topic(events.broker.bootstrap, events.topic, 1)
        events.produce(good(5), good(6), good(7))
        return original(self, batch_id)

    monkeypatch.setattr(batch_module.IngestBatch, "_bounds", recreate_first)
    error = events.run().error
    assert isinstance(error, NonRetriableError)
    assert "created again" in error.message
    events.land()
    assert events.ids() == [5, 6, 7]


@pytest.mark.guarantee(
    "case: kafka-04",
    "bad day: retention",
    "fault: Retention took unread records → The stream stops and names the offsets",
)
def test_the_stream_says_which_records_are_gone_when_retention_passed_the_marks(stream: Make) -> None:
    events = stream()
    events.produce(good(0), good(1))
    events.land()
    events.produce(good(2), good(3), good(4))
    _delete_records(events, 4)
    error = events.run().error
    assert isinstance(error, DataLoss)
    assert "2 records" in error.message
    assert "partition 0: offsets 2 to 3" in error.message
    events.land(**{"on-data-loss": "continue"})
    assert events.ids() == [0, 1, 4]
    assert [dict(c.jumped) for c in events.ledger_commits() if c.jumped] == [{0: (2, 4)}]


@pytest.mark.guarantee("fault: Partitions are added → They are read from their start")
def test_new_partitions_are_read_from_their_start_when_they_are_added(stream: Make) -> None:
    from confluent_kafka.admin import NewPartitions

    events = stream(partitions=1)
    events.produce(good(0))
    events.land()
    client = admin(events.broker.bootstrap)
    client.create_partitions([NewPartitions(events.topic, 3)])[events.topic].result(30)
    events.produce(*[SampleRecord(good(i), partition=i % 3) for i in range(1, 10)])
    events.land()
    assert events.ids() == list(range(10))


@pytest.mark.guarantee("fault tolerance: wrong application id")
def test_the_start_is_refused_when_another_stream_wrote_the_table(landed: StreamUnderTest) -> None:
    settings = landed.settings()
    renamed = {"other": settings.streams[NAME]}
    (outcome,) = Ingest(
        landed.spark, replace(settings, streams=renamed), available_now=True, sleep=lambda _: False
    ).run()
    assert isinstance(outcome.error, LedgerError)
    assert "tidemark adopt" in str(outcome.error)


def test_the_start_is_refused_when_the_table_has_rows_and_no_marks(landed: StreamUnderTest) -> None:
    copy = landed.folder / "copy"
    landed.rows.write.format("delta").save(str(copy))
    shutil.rmtree(str(landed.table.path))
    shutil.move(copy, str(landed.table.path))
    error = landed.run().error
    assert isinstance(error, LedgerError)
    assert "has rows, but no marks" in error.message
    assert "tidemark adopt" in str(error)


@pytest.mark.guarantee(
    "fault tolerance: payload is no JSON, no Avro",
    "fault: A record is malformed, or all of a batch are → It is a dead letter at once; the stream goes on",
)
def test_every_dead_letter_is_published_when_a_batch_is_full_of_bad_records(stream: Make) -> None:
    events = stream(partitions=2)
    events.options["processing"] = {"rejected-in-memory": 5}
    events.produce(*[b"x" * 10 for _ in range(300)], b"y" * 9000, good(1))
    events.land()
    assert events.ids() == [1]
    assert len(events.dead_letters()) == 301
    (report,) = events.reports
    assert (report.rejected, sum(report.failures.values())) == (301, 301)
    assert report.lag == 0


def _entries(events: StreamUnderTest) -> list[object]:
    from tidemark.sink.table_log import DeltaLog

    return sorted(DeltaLog(events.spark, events.table)(1000).entries, key=lambda e: e.version)


def _delete_records(events: StreamUnderTest, before: int) -> None:
    from confluent_kafka import TopicPartition

    client = admin(events.broker.bootstrap)
    for future in client.delete_records([TopicPartition(events.topic, 0, before)]).values():
        future.result(30)
