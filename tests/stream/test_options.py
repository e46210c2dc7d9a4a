"""What a stream's options do on the way from a real broker to real tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest
from pyspark.sql import functions as F
from structlog.testing import capture_logs
from tests.stream_under_test import BAD, DDL, Reports, StreamUnderTest, good

from tidemark.config import stream as stream_options
from tidemark.contract import records
from tidemark.contract.batch_report import BatchReport
from tidemark.contract.errors import NonRetriableError, SchemaConflict
from tidemark.dev.producers import SampleRecord, create_topic
from tidemark.ingest.application import Ingest
from tidemark.operations.adopt import MarksFrom, adopt, adoptable_marks
from tidemark.source.topics import KafkaAdmin
from tidemark.streams.status import logs_of, status_of
from tidemark.streams.targets import targets_of

Make = Callable[..., StreamUnderTest]


@pytest.mark.guarantee("case: decode-01", "case: merge-05", "case: kafka-11", "case: dlq-02")
def test_every_record_also_lands_raw_when_the_stream_has_a_landing_table(stream: Make) -> None:
    events = stream()
    raw = str(events.folder / "raw")
    headers = [("h", b"1"), ("h", b"2"), ("n", None)]
    events.produce(
        SampleRecord(good(1), key=b"k", headers=headers), BAD, SampleRecord(None, key=b"k2"), b"\x00\xff"
    )
    events.options["landing"] = {"destination": {"bucket": str(events.folder), "path": "raw"}}
    events.options["tombstones"] = "reject"
    for _ in range(2):
        outcomes = events.ingest().run()
        assert [o.error for o in outcomes] == [None, None]
    landed = events.spark.read.format("delta").load(raw).orderBy(records.OFFSET).collect()
    assert [r[records.PAYLOAD] and bytes(r[records.PAYLOAD]) for r in landed] == [
        good(1),
        BAD,
        None,
        b"\x00\xff",
    ]
    assert bytes(landed[0][records.KEY]) == b"k"
    assert [(h["name"], h["value"] and bytes(h["value"])) for h in landed[0][records.HEADERS]] == headers
    assert events.ids() == [1]
    dead_letters = events.dead_letters()
    assert [x["value"] for x in dead_letters] == [BAD, None, b"\x00\xff"]
    assert (dead_letters[1]["key"], dead_letters[1]["category"]) == (b"k2", "EMPTY_PAYLOAD")


@pytest.mark.guarantee("case: kafka-11", "case: dlq-02")
def test_a_dead_letter_keeps_key_partition_and_headers_in_order_when_it_is_published(stream: Make) -> None:
    events = stream(partitions=3)
    headers = [("h", b"1"), ("h", b"2"), ("n", None), ("__dlq.errors.topic", b"forged")]
    events.produce(SampleRecord(BAD, key=b"\x00\x01", headers=headers, partition=2))
    events.land()
    (dead_letter,) = events.dead_letters()
    assert (dead_letter["key"], dead_letter["value"]) == (b"\x00\x01", BAD)
    assert [(n, v and bytes(v)) for n, v in dead_letter["headers"][:4]] == headers, "before those of Tidemark"
    assert dead_letter["topic"] == events.topic
    assert (dead_letter["partition"], dead_letter["offset"], dead_letter["stage"]) == ("2", "0", "decode")
    assert sum(name == "__dlq.errors.topic" for name, _ in dead_letter["headers"]) == 2


def test_a_compacted_dead_letter_topic_is_refused_with_the_command_that_changes_it(stream: Make) -> None:
    events = stream()
    create_topic(events.broker.bootstrap, f"{events.topic}-dlq", 1, cleanup_policy="compact,delete")
    events.produce(good(1), BAD)
    error = events.run().error
    assert isinstance(error, NonRetriableError)
    assert "cleanup.policy=compact,delete" in error.message
    assert f"--entity-name {events.topic}-dlq --add-config cleanup.policy=delete" in str(error.hint)


@pytest.mark.guarantee("case: dlq-05")
def test_nothing_is_published_when_the_batch_has_more_bad_records_than_max_bad_share(stream: Make) -> None:
    events = stream()
    events.produce(*[good(i) for i in range(4)], *[b'{"id": 100, "size": 1}'] * 6)
    strict = {"unknown-fields": "reject", "processing": {"max-bad-share": 0.5}}
    error = events.run(**strict).error
    assert isinstance(error, NonRetriableError)
    assert "6 of 10" in error.message
    assert events.dead_letters() == []
    events.land(processing={"max-bad-share": 0.5})
    assert events.ids() == [0, 1, 2, 3, *[100] * 6]
    assert events.dead_letters() == []


@pytest.mark.guarantee("case: schema-03", "case: schema-06", "fault tolerance: the schema changed")
def test_a_new_column_is_added_only_when_schema_evolution_allows_it(stream: Make) -> None:
    events = stream()
    events.produce(good(1))
    events.land()
    wider = {"schema": {"ddl": "id INT NOT NULL, name STRING, size INT"}}
    events.produce(b'{"id": 2, "size": 7}')
    error = events.run(**wider).error
    assert isinstance(error, SchemaConflict)
    assert "size int" in error.message
    assert events.ids() == [1]
    events.land(**wider, **{"schema-evolution": "add-columns"})
    events.holds("id INT, size INT", (1, None), (2, 7))
    narrower = {
        "schema": {"ddl": "id BIGINT NOT NULL, name STRING, size INT"},
        "schema-evolution": "add-columns",
    }
    error = events.run(**narrower).error
    assert isinstance(error, SchemaConflict)
    assert "id: int in the table, bigint in the stream" in error.message


@pytest.mark.guarantee("case: schema-04")
def test_a_column_has_its_declared_type_when_the_first_batch_holds_only_nulls(stream: Make) -> None:
    events = stream()
    events.produce(b'{"id": 1, "name": null}')
    events.land()
    events.holds(DDL, (1, None))
    events.produce(b'{"id": 2, "name": "x"}')
    events.land()
    events.holds(DDL, (1, None), (2, "x"))


@pytest.mark.guarantee("case: time-03")
def test_records_land_by_cob_date_when_the_stream_names_only_its_column(stream: Make) -> None:
    events = stream()
    columns = [{"name": "id", "type": "int"}, {"name": "cob", "type": "string"}]
    schema = {"type": "record", "name": "Event", "fields": columns}
    (events.folder / "events.avsc").write_text(json.dumps(schema))
    # The keys that the source documents' sample has, and no others.
    events.options |= {
        "supported-formats": ["JSON", "CSV", "AVRO"],
        "schema": {"file": "events.avsc"},
        "destination": {
            "bucket": str(events.folder),
            "path": "lake/events",
            "partition-columns": ["cob_date"],
        },
        "processing": {"batch-size": 1000, "flush-interval": 60, "max-retries": 3},
    }
    events.produce(
        b'{"id":1,"cob":"2024-01-15"}', b'{"id":2,"cob":"2024-01-16"}', b'{"id":3,"cob":"2999-01-01"}'
    )
    events.land()
    folders = sorted(p.name for p in Path(str(events.table.path)).glob("cob_date=*"))
    assert folders == ["cob_date=2024-01-15", "cob_date=2024-01-16"]
    (dead_letter,) = events.dead_letters()
    assert dead_letter["category"] == "RULE_VIOLATED"


def test_a_batch_lands_in_as_many_files_as_asked_when_the_topic_has_more_partitions(stream: Make) -> None:
    events = stream(partitions=8)
    events.options["processing"] = {"max-partitions": 2}
    events.produce(*[SampleRecord(good(i), partition=i % 8) for i in range(40)])
    events.produce(*[SampleRecord(BAD, partition=p) for p in range(8)])
    events.land()
    (report,) = events.reports
    assert (report.read, report.accepted, report.rejected, report.files_written) == (48, 40, 8, 2)
    assert events.ids() == list(range(40))
    assert len(events.accounted()) == 48


def test_adopted_marks_come_from_rows_or_topic_when_the_table_lost_its_ledger(stream: Make) -> None:
    events = stream(partitions=2)
    events.produce(*[SampleRecord(good(i), partition=i % 2) for i in range(6)])
    events.land()
    for source, expected in ((MarksFrom.ROWS, {0: 2, 1: 2}), (MarksFrom.EARLIEST, {0: 0, 1: 0})):
        copy = events.folder / "copy"
        events.rows.where(F.col("id") < 4).write.format("delta").save(str(copy))
        shutil.rmtree(str(events.table.path))
        shutil.move(copy, str(events.table.path))
        settings = events.settings()
        (target,) = targets_of(events.spark, settings, "events", run="by-hand")
        admin = KafkaAdmin(settings.kafka)
        adopted = adoptable_marks(events.spark, admin, target, source)
        assert dict(adopted.marks) == expected
        assert dict(adopted.published) == {0: 0, 1: 0}, "the last batch may not be published"
        adopt(events.spark, admin, target, adopted)
        events.land()
        assert events.ids() == list(range(6)), "rows that are there are not doubled"


def test_an_emptied_table_goes_on_as_the_operator_says_when_it_is_adopted(stream: Make) -> None:
    events = stream()
    events.produce(good(0), good(1))
    events.land()
    for source, number, ids in ((MarksFrom.KEPT, 2, [2]), (MarksFrom.EARLIEST, 3, [0, 1, 2, 3])):
        events.spark.sql(f"DELETE FROM {events.table.sql}")
        events.produce(good(number))
        assert events.run().error is not None
        settings = events.settings()
        (target,) = targets_of(events.spark, settings, "events", run="by-hand")
        admin = KafkaAdmin(settings.kafka)
        adopt(events.spark, admin, target, adoptable_marks(events.spark, admin, target, source))
        events.land()
        assert events.ids() == ids


def test_status_shows_mark_end_and_lag_of_each_partition_when_records_wait(stream: Make) -> None:
    events = stream(partitions=2)
    events.produce(*[SampleRecord(good(i), partition=i % 2) for i in range(4)])
    events.land()
    events.produce(SampleRecord(good(9), partition=1))
    (status,) = status_of(logs_of(events.spark), events.settings(), "events")
    assert [(p.partition, p.mark, p.end_offset, p.lag) for p in status.partitions] == [
        (0, 2, 2, 0),
        (1, 2, 3, 1),
    ]
    assert status.last_commit_version == events.state().newest_version
    assert status.last_commit_time is not None
    assert status.problem is None


def test_the_queries_of_an_application_share_its_polls_when_no_interval_is_given(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_options, "_POLLS_A_SECOND", 2)
    events = stream()
    events.options["landing"] = {"destination": {"bucket": str(events.folder), "path": "raw"}}
    events.options["processing"] = {"batch-size": 1}
    events.options["dead-letter"] = {"keep-table": True}
    events.produce(good(1))
    landed: list[BatchReport] = []
    ingest = Ingest(events.spark, events.settings(), observers=[Reports(landed)])
    with capture_logs() as lines:
        running = Thread(target=ingest.run)
        running.start()
        deadline = monotonic() + 90
        while len(landed) < 2 and running.is_alive() and monotonic() < deadline:
            sleep(0.05)
        ingest.stop()
        running.join(90)
    assert not running.is_alive()
    polled = {line["query"]: line["every_s"] for line in lines if line["event"] == "query polls"}
    assert polled == {"events": 1.5, "events.landing": 1.5, "events dead letters": 1.5}
