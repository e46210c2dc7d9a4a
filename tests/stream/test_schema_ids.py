"""Framed Avro through the main job, with a schema registry over HTTP that learns, fails and comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.schema_registry import V1, V2, Registry, framed, record
from tests.stream_under_test import StreamUnderTest

from tidemark.config.destination import TableRef
from tidemark.contract.errors import TidemarkError
from tidemark.contract.ledger_commit import CommitKind
from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.query import dead_letter_target, keep_dead_letters
from tidemark.dead_letters.replay import Replay
from tidemark.dead_letters.selection import Selection
from tidemark.operations.backfill import backfill
from tidemark.source.topics import KafkaAdmin

Make = Callable[..., StreamUnderTest]
ONE_A_BATCH = {"batch-size": 1, "max-batch-size": 1, "max-retries": 1}


def landed(flow: StreamUnderTest) -> list[tuple[int, str | None]]:
    return [(r["a"], r["b"]) for r in flow.rows.orderBy("stream_offset").select("a", "b").collect()]


@pytest.mark.guarantee("case: decode-14", "fault tolerance: the schema registry")
def test_new_schema_ids_widen_the_plan_before_a_commit_when_a_registry_has_them(stream: Make) -> None:
    with Registry() as registry:
        registry.schemas = {1: V1, 2: V2}
        flow = stream()
        flow.options = {
            "supported-formats": ["AVRO"],
            "schema": {"ddl": "a INT, b STRING"},
            "avro": {"framing": "confluent", "registry": registry.url, "registry-timeout": 2},
            "landing": {"destination": {"bucket": str(flow.folder), "path": "lake/raw"}},
            "processing": ONE_A_BATCH,
        }
        registered = {9: V1}

        def registers_it_once_it_was_asked_for(schema_id: int) -> None:
            registry.schemas |= {schema_id: registered.pop(schema_id)} if schema_id in registered else {}

        registry.after_asking = registers_it_once_it_was_asked_for
        flow.produce(framed(1, b"\x02"), framed(2, b"\x04\x02x"), framed(9, b"\x06"), framed(9, b"\x08"))
        flow.land()
        assert landed(flow) == [(1, None), (2, "x"), (4, None)]
        assert [(x["offset"], x["category"]) for x in flow.dead_letters()] == [("2", "UNKNOWN_SCHEMA_ID")]
        batches = [c for c in flow.ledger_commits() if c.kind is CommitKind.BATCH]
        assert [c.marks.at(0) for c in batches] == [1, 2, 3, 4], "no batch was committed under a narrow plan"
        raw = TableRef(path=str(flow.folder / "lake/raw"))
        assert flow.spark.table(raw.sql).count() == 4

        flow.produce(framed(3, b"\x0a"))
        registry.schemas |= {3: record({"name": "a", "type": "int"}, {"name": "b", "type": "string"})}
        registry.status = 503
        outcomes = {o.name: o.error for o in flow.ingest().run()}
        stopped = [e for e in outcomes.values() if e is not None]
        assert len(stopped) == 1, "a landing table needs no schema"
        assert isinstance(stopped[0], TidemarkError)
        assert "registry" in str(stopped[0])
        assert len(flow.dead_letters()) == 1, "an outage is not the record's fault"
        assert flow.spark.table(raw.sql).count() == 5

        flow.produce(framed(1, b"\x0c"))
        registry.status = None
        flow.land()
        assert landed(flow)[3:] == [(6, None)]
        assert [(x["offset"], x["category"]) for x in flow.dead_letters()][1:] == [("4", "MALFORMED_AVRO")]

        target = dead_letter_target(flow.spark, flow.settings(), "events", run="by-hand")
        keep_dead_letters(flow.spark, flow.settings(), target)
        unknown = Selection(codes=("UNKNOWN_SCHEMA_ID",))
        admin = KafkaAdmin(flow.settings().kafka)
        assert Replay(flow.spark, admin, target, by="test").of(unknown).resolved == 1, (
            "its id is registered by now"
        )
        assert landed(flow) == [(1, None), (2, "x"), (3, None), (4, None), (6, None)]
        again = backfill(
            flow.spark, flow.settings(), target, start=Marks({0: 0}), end=Marks({0: 6}), dry_run=True
        )
        assert (again.accepted, again.changed, again.codes) == (5, 0, {"MALFORMED_AVRO": 1})
