"""Dead letters from the topic to the table, fixed, and landed under their own coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from tests.dead_letters.conftest import DeadLetters
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.errors import UsageError
from tidemark.contract.marks import Marks
from tidemark.dead_letters import replay_landing
from tidemark.dead_letters.dlq_table.query import dead_letter_target
from tidemark.dead_letters.dlq_table.table import event
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.dev.broker import EmbeddedBroker
from tidemark.dev.producers import SampleRecord, create_topic
from tidemark.operations.rewind import RewindTarget, rewind
from tidemark.source.topics import KafkaAdmin

MakeStream = Callable[..., StreamUnderTest]
MakeDeadLetters = Callable[[StreamUnderTest], DeadLetters]
FIXED = PayloadEdit(expression="replace(payload, '\"not a number\"', '7')")


@pytest.mark.guarantee("case: decode-03", "case: dlq-03", "case: dlq-04")
def test_each_dead_letter_stands_once_with_its_record_when_it_was_published_twice(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream(partitions=2)
    key, headers = b"\x00\x00\x00\x00\x01\x02", (("h", b"1"), ("h", b"2"), ("n", None))
    flow.produce(
        SampleRecord(good(1), partition=0),
        SampleRecord(b"{\x81}", key=key, headers=headers, partition=1),
    )
    flow.land()
    topic = flow.settings().stream("events").dlq_topic
    first = flow.dead_letters()
    flow.spark.createDataFrame(
        [(topic, first[0]["key"], first[0]["value"], [(n, v) for n, v in first[0]["headers"]])],
        "topic STRING, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
    ).write.format("kafka").option("kafka.bootstrap.servers", flow.broker.bootstrap).option(
        "includeHeaders", "true"
    ).save()

    kept = dead_letters(flow)
    kept.keep()
    kept.keep()

    assert len(flow.dead_letters()) == 2
    (row,) = kept.rows()
    assert bytes(row.message_payload) == b"{\x81}"
    assert bytes(row.message_key) == key
    assert [(h.name, h.value and bytes(h.value)) for h in row.message_headers] == list(headers)
    assert (row.stream_partition, row.stream_offset, row.failure_code) == (1, 0, "INVALID_UTF8")
    assert (row.status, row.attempts, row.written_as, row.stream) == ("new", 0, "headers", "events")


@pytest.fixture(scope="module")
def kept(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> DeadLetters:
    """Dead letters of one stream at the offsets 1, 3, 4 and 5: one for each test, with a code of its own."""
    create_topic(broker.bootstrap, "four-letters", 1)
    flow = StreamUnderTest(spark, broker, "four-letters", tmp_path_factory.mktemp("four-letters"))
    flow.produce(good(1), BAD, good(3), b'{"id": null, "name": "x"}', b"{\x81}", b"{")
    flow.land()
    kept = DeadLetters(flow)
    kept.keep()
    return kept


def dead_letter(kept: DeadLetters, offset: int) -> Row:
    return next(row for row in kept.rows() if row.stream_offset == offset)


@pytest.mark.guarantee("case: dlq-04")
def test_a_fixed_dead_letter_lands_once_at_its_coordinates_when_replayed_twice(
    kept: DeadLetters,
) -> None:
    flow, before, others = kept.stream, kept.stream.ids(), kept.statuses()
    others.remove((1, "new"))

    looked = kept.replay(Selection(codes=("TYPE_MISMATCH",)), edit=FIXED, dry_run=True)
    assert (looked.chosen, looked.resolved, looked.version) == (1, 1, None)
    assert kept.statuses() == sorted([(1, "new"), *others])
    done = kept.replay(Selection(codes=("TYPE_MISMATCH",)), edit=FIXED, by="ann")
    assert (done.chosen, done.resolved, done.already, done.waiting) == (1, 1, 0, 0)
    again = kept.replay(
        Selection(dead_letters=(kept.ids()[0],), statuses=(DeadLetterStatus.RESOLVED,)), edit=FIXED
    )
    assert (again.resolved, again.already) == (1, 1)

    assert kept.statuses() == sorted([(1, "resolved"), *others])
    assert flow.landed()[1][2] == 1
    assert flow.ids() == sorted([*before, 7])
    row = dead_letter(kept, 1)
    assert bytes(row.message_payload) == BAD, "the original bytes stay"
    assert row.edit == str(FIXED)
    flow.produce(good(50))
    flow.land()
    assert flow.ids() == sorted([*before, 7, 50])


def test_a_fixed_dead_letter_that_the_table_would_refuse_is_rejected_by_itself(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream()
    flow.produce(good(1), BAD, b"{")
    flow.land()
    flow.spark.sql(f"ALTER TABLE {flow.table.sql} ADD CONSTRAINT small CHECK (id < 100)")
    kept = dead_letters(flow)
    kept.keep()
    edited = PayloadEdit(expression="if(payload = '{', '{\"id\": 3}', '{\"id\": 666}')")
    done = kept.replay(Selection(), edit=edited)
    assert (done.resolved, done.rejected, done.codes) == (1, 1, {"RULE_VIOLATED": 1})
    assert flow.ids() == [1, 3]


def test_a_dead_letter_is_parked_when_it_failed_three_times(kept: DeadLetters) -> None:
    before = kept.stream.ids()
    those = Selection(codes=("INVALID_UTF8",))
    assert [kept.replay(those).rejected for _ in range(2)] == [1, 1]
    assert (dead_letter(kept, 4).status, dead_letter(kept, 4).attempts) == ("new", 2)
    assert kept.replay(those).parked == 1
    assert (dead_letter(kept, 4).status, dead_letter(kept, 4).attempts) == ("parked", 3)
    assert kept.replay(those).chosen == 0, "a parked dead letter is replayed only when it is named"
    named = Selection(dead_letters=(f"{kept.stream.topic}:0:4",))
    assert kept.replay(named, edit=PayloadEdit(expression="'{\"id\": 8}'")).resolved == 1
    assert kept.stream.ids() == sorted([*before, 8])


def test_a_dead_letter_is_open_again_when_the_table_is_restored_to_before_its_row(kept: DeadLetters) -> None:
    flow, before, version = kept.stream, kept.stream.ids(), kept.stream.state().version
    fix = {"selection": Selection(codes=("MALFORMED_JSON",)), "edit": PayloadEdit(expression="'{\"id\": 9}'")}
    assert kept.replay(**fix).resolved == 1
    assert flow.ids() == sorted([*before, 9])

    # A host whose clock is ahead says so once more.
    resolved = kept.table.dead_letters(flow.spark).where("stream_offset = 5")
    ahead = F.expr("current_timestamp() + INTERVAL 1 HOUR")
    kept.table.note(
        event(resolved, DeadLetterStatus.RESOLVED, by="ahead", note=F.lit("")).withColumn("at", ahead)
    )
    assert dead_letter(kept, 5).status_by == "ahead"

    flow.spark.sql(f"RESTORE TABLE {flow.table.sql} TO VERSION AS OF {version}")
    flow.produce(good(60))
    flow.land()
    assert flow.ids() == sorted([*before, 60])
    assert dead_letter(kept, 5).status == "new", "the stream's own start reopens it"
    assert kept.replay(**fix).resolved == 1
    assert flow.ids() == sorted([*before, 9, 60])
    assert dead_letter(kept, 5).status == "resolved"


def test_a_row_lands_once_when_marks_go_back_before_the_append_of_a_replay(
    stream: MakeStream, dead_letters: MakeDeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = stream()
    flow.produce(good(1), b'{"id": 2}')
    flow.land(rules=[{"name": "named", "expr": "name IS NOT NULL"}])
    kept = dead_letters(flow)
    kept.keep()
    reached: list[str] = []

    def the_stream_lands_it_meanwhile(point: str) -> None:
        if point == "replay-decided" and point not in reached:
            settings = flow.settings()
            target = dead_letter_target(flow.spark, settings, "events", run="by-hand")
            rewind(flow.spark, KafkaAdmin(settings.kafka), target, RewindTarget(earliest=True))
            flow.land()
        reached.append(point)

    monkeypatch.setattr(replay_landing, "failpoint", the_stream_lands_it_meanwhile)
    done = kept.replay()
    assert reached.count("replay-decided") == 2, "the first append is refused"
    assert flow.ids() == [1, 2]
    assert flow.state().marks == Marks({0: 2})
    assert (done.resolved, done.already, kept.statuses()) == (1, 1, [(1, "resolved")])


@pytest.mark.guarantee("case: merge-03")
def test_a_record_is_refused_to_be_fixed_by_chance(kept: DeadLetters) -> None:
    before = kept.stream.ids()
    for expression, why in (
        ("rand()", "deterministic"),
        ("concat(`current_date`, payload)", "current_date() is not deterministic"),
        ("nonsense(payload)", "nonsense"),
        ("(", "("),
    ):
        with pytest.raises(UsageError, match=r"--edit") as refused:
            kept.replay(edit=PayloadEdit(expression=expression))
        assert why in str(refused.value)
    with pytest.raises(UsageError, match=r"not topic:partition:offset"):
        kept.replay(Selection(dead_letters=("7",)))
    patched = kept.replay(
        Selection(codes=("REQUIRED_FIELD",)), edit=PayloadEdit(patch={"id": 70, "name": None})
    )
    assert patched.resolved == 1
    assert kept.stream.ids() == sorted([*before, 70])


@pytest.mark.guarantee("reliability: twelve fields of the envelope")
def test_the_envelope_holds_twelve_fields_and_is_read_back_when_it_is_the_format(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    import json

    flow = stream(**{"dead-letter": {"format": "envelope"}})
    flow.produce(SampleRecord(BAD, key=b"user-123"), SampleRecord(b"{\x81}", key=b"\xff"))
    flow.land()
    envelopes: list[dict[str, Any]] = [json.loads(x["value"]) for x in flow.dead_letters()]
    assert [list(e) for e in envelopes] == [
        [
            *("original_topic", "original_partition", "original_offset", "original_key", "original_value"),
            *("original_timestamp", "error_reason", "error_message", "error_class", "error_stack_trace"),
            *("dlq_timestamp", "dlq_version"),
        ]
    ] * 2
    assert (envelopes[0]["original_key"], envelopes[0]["original_value"]) == ("user-123", BAD.decode())
    assert (envelopes[0]["original_partition"], envelopes[0]["original_offset"]) == ("0", 0)
    assert (envelopes[1]["original_value"], envelopes[1]["dlq_version"]) == ("base64:e4F9", "1.0")

    kept = dead_letters(flow)
    kept.keep()
    rows = kept.rows()
    assert [bytes(r.message_payload) for r in rows] == [BAD, b"{\x81}"]
    assert [bytes(r.message_key) for r in rows] == [b"user-123", b"\xff"]
    assert [r.failure_code for r in rows] == ["TYPE_MISMATCH", "INVALID_UTF8"]
    assert {r.written_as for r in rows} == {"envelope"}
    assert kept.replay(edit=FIXED).resolved == 1
