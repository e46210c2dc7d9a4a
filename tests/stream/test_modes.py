"""Ways to be idempotent: what each drops, keeps and counts, and the way from one to another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.stream_under_test import BAD, DDL, StreamUnderTest, good

from tidemark.config.reading.load import parse_settings
from tidemark.config.stream import Mode
from tidemark.contract import failpoints as fault_points
from tidemark.contract.dead_letters import REPLAYED_FROM
from tidemark.contract.errors import ConfigError
from tidemark.contract.ledger_commit import LedgerCommit
from tidemark.dev.producers import SampleRecord
from tidemark.streams.targets import targets_of

Make = Callable[..., StreamUnderTest]
FINGERPRINT = {"mode": "fingerprint"}
MERGE = {"mode": "merge"}


@pytest.fixture(autouse=True)
def no_faults() -> None:
    fault_points.forget()


def keyed(number: int, partition: int = 0, **more: Any) -> SampleRecord:
    return SampleRecord(good(number), key=b"k", partition=partition, **more)


def newest(events: StreamUnderTest) -> LedgerCommit:
    return events.ledger_commits()[-1]


def counts(events: StreamUnderTest) -> tuple[int, int, int, int, int]:
    """read, accepted, rejected, skipped, duplicate of the last run."""
    kept = events.reports
    assert all(r.difference == 0 for r in kept)
    return (
        sum(r.read for r in kept),
        sum(r.accepted for r in kept),
        sum(r.rejected for r in kept),
        sum(r.skipped for r in kept),
        sum(r.duplicate for r in kept),
    )


@pytest.mark.guarantee("case: merge-03", "reliability: duplicates at other offsets")
def test_a_content_lands_once_and_every_record_is_counted_when_it_comes_again(stream: Make) -> None:
    events = stream(partitions=2, idempotency=FINGERPRINT)
    bad, tombstone = SampleRecord(BAD, partition=0), SampleRecord(None, key=b"k", partition=1)
    events.produce(keyed(1), keyed(2), keyed(1), keyed(1, partition=1), bad, bad, tombstone, tombstone)
    events.land()
    assert events.ids() == [1, 2]
    assert counts(events) == (8, 2, 2, 2, 2)
    assert len(events.dead_letters()) == 2

    first = newest(events).checkpoint
    published_again = keyed(2, headers=[(REPLAYED_FROM, b"topic:0:1")])
    late = SampleRecord(good(3), key=b"k", partition=0, timestamp_ms=1)
    events.produce(keyed(1), keyed(2, partition=1), bad, late, keyed(4), published_again)
    events.land()
    assert newest(events).checkpoint == first, "a restart goes on from its own memory"
    assert events.ids() == [1, 2, 2, 3, 4]
    assert counts(events) == (6, 3, 1, 0, 2)
    assert len(events.dead_letters()) == 3


@pytest.mark.guarantee("case: merge-04", "case: kafka-02")
def test_rows_are_inserted_by_coordinates_when_the_table_has_another_writer(stream: Make) -> None:
    events = stream(idempotency=MERGE)
    events.produce(good(1), good(2), BAD)
    events.land()
    topic_id = newest(events).topic_id
    events.spark.sql(
        f"INSERT INTO {events.table.sql} (id, name, stream_topic_id, stream_partition, stream_offset)"
        f" VALUES (3, 'by hand', '{topic_id}', 0, 3)"
    )
    events.produce(good(3), good(4))
    # What somebody left behind in the session: a batch has its own, and must see neither.
    left = {"txnAppId": "somebody", "txnVersion": "999"}
    for name in ("t", "s", "batch", "source", "updates"):
        events.spark.range(3).createOrReplaceTempView(name)
    for name, value in left.items():
        events.spark.conf.set(f"spark.databricks.delta.write.{name}", value)
    try:
        events.land()
    finally:
        for name in left:
            events.spark.conf.unset(f"spark.databricks.delta.write.{name}")
    assert events.ids() == [1, 2, 3, 4]
    assert events.rows.where("id = 3").first()["name"] == "by hand"
    assert counts(events) == (2, 1, 0, 0, 1)
    assert [r.conflicts for r in events.reports] == [1], (
        "other content under the same coordinates is reported"
    )


@pytest.mark.guarantee("case: schema-02")
def test_a_table_holds_the_newest_version_of_each_entity_when_records_are_changes(
    stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(key: int, name: str | None, kafka_key: bytes | None = None) -> SampleRecord:
        value = None if name is None else json.dumps({"id": key, "name": name}).encode()
        return SampleRecord(value, key=kafka_key or json.dumps({"id": key}).encode())

    events = stream(idempotency={**MERGE, "merge-keys": ["id"]})
    events.produce(change(1, "a"), change(2, "a"), change(1, "b"), change(2, None), SampleRecord(BAD))
    monkeypatch.setenv(fault_points.VARIABLE, "after-append=raise")
    assert events.run().error is not None
    monkeypatch.delenv(fault_points.VARIABLE)
    events.land()
    events.holds(DDL, (1, "b"))
    assert counts(events) == (5, 3, 1, 1, 0)

    old = json.dumps({"id": 3, "name": "published again"}).encode()
    dead_letter = f"{newest(events).topic_id}:0:4".encode()
    events.produce(
        change(1, None, b"1"),
        change(3, "a"),
        change(2, "c"),
        change(9, None, b"nobody"),
        SampleRecord(old, headers=[(REPLAYED_FROM, dead_letter)]),
    )
    events.land()
    events.holds(DDL, (2, "c"), (3, "a"))
    assert counts(events) == (5, 3, 1, 1, 0)
    assert [x["message"] for x in events.dead_letters()][1].startswith("the key of a tombstone")


def test_the_source_documents_switch_turns_fingerprints_on_and_off(tmp_path: Path) -> None:
    def mode(enabled: bool | None, **idempotency: str) -> Mode:
        stream: dict[str, Any] = {
            "kafka-topic": "t",
            "schema": {"ddl": "id INT"},
            "destination": {"bucket": "./lake", "path": "t"},
        }
        if idempotency:
            stream["idempotency"] = idempotency
        text: dict[str, Any] = {
            "kafka": {"bootstrap-servers": "localhost:9092"},
            "connector": {"topics": {"orders": stream}},
        }
        if enabled is not None:
            text["kafka-native"] = {"idempotency": {"enabled": enabled}}
        return parse_settings(json.dumps(text), root=tmp_path).stream("orders").idempotency.mode

    assert [mode(None), mode(True), mode(False)] == [Mode.KAFKA_NATIVE, Mode.KAFKA_NATIVE, Mode.FINGERPRINT]
    assert mode(False, mode="merge") is Mode.MERGE


def test_the_start_is_refused_when_a_merge_column_is_not_in_the_table(stream: Make) -> None:
    events = stream(idempotency={**MERGE, "merge-keys": ["idd"], "order-by": "changed"})
    with pytest.raises(ConfigError, match=r"merge-keys: idd, order-by: changed"):
        targets_of(events.spark, events.settings(), "events", run="run")
