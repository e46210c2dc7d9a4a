"""Dead letters from the topic to the table, mended, and landed under their own coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.dead_letters.conftest import Letters
from tests.stream_under_test import BAD, StreamUnderTest, good

from tidemark.contract.dead_letters import LetterStatus
from tidemark.contract.errors import UsageError
from tidemark.dev.producers import SampleRecord
from tidemark.pipeline.replay_choice import Choice, Edit

MakeStream = Callable[..., StreamUnderTest]
MakeLetters = Callable[[StreamUnderTest], Letters]
MENDED = Edit(expression="replace(payload, '\"not a number\"', '7')")


def test_each_letter_stands_once_with_its_record_when_it_was_published_twice(
    stream: MakeStream, letters: MakeLetters
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

    kept = letters(flow)
    kept.keep()
    kept.keep()

    assert len(flow.dead_letters()) == 2
    (row,) = kept.rows()
    assert bytes(row.message_payload) == b"{\x81}"
    assert bytes(row.message_key) == key
    assert [(h.name, h.value and bytes(h.value)) for h in row.message_headers] == list(headers)
    assert (row.stream_partition, row.stream_offset, row.failure_code) == (1, 0, "INVALID_UTF8")
    assert (row.status, row.attempts, row.written_as, row.stream) == ("new", 0, "headers", "events")


def test_a_mended_letter_lands_once_under_its_own_coordinates_when_it_is_replayed_twice(
    stream: MakeStream, letters: MakeLetters
) -> None:
    flow = stream()
    flow.produce(good(1), BAD, good(3), b"{}")
    flow.land()
    kept = letters(flow)
    kept.keep()

    looked = kept.replay(Choice(codes=("TYPE_MISMATCH",)), edit=MENDED, dry_run=True)
    assert (looked.chosen, looked.resolved, looked.version) == (1, 1, None)
    assert kept.statuses() == [(1, "new"), (3, "new")]
    done = kept.replay(Choice(codes=("TYPE_MISMATCH",)), edit=MENDED, by="ann")
    assert (done.chosen, done.resolved, done.already, done.waiting) == (1, 1, 0, 0)
    again = kept.replay(Choice(letters=(kept.ids()[0],), statuses=(LetterStatus.RESOLVED,)), edit=MENDED)
    assert (again.resolved, again.already) == (1, 1)

    assert kept.statuses() == [(1, "resolved"), (3, "new")]
    assert flow.landed()[1][2] == 1
    assert flow.ids() == [1, 3, 7]
    (row, _) = kept.rows()
    assert bytes(row.message_payload) == BAD, "the original bytes stay"
    assert row.edit == str(MENDED)
    flow.produce(good(5))
    flow.land()
    assert flow.ids() == [1, 3, 5, 7]


def test_a_letter_is_parked_when_it_failed_three_times(stream: MakeStream, letters: MakeLetters) -> None:
    flow = stream()
    flow.produce(BAD)
    flow.land()
    kept = letters(flow)
    kept.keep()

    assert [kept.replay().rejected for _ in range(2)] == [1, 1]
    assert (kept.rows()[0].status, kept.rows()[0].attempts) == ("new", 2)
    assert kept.replay().parked == 1
    assert (kept.rows()[0].status, kept.rows()[0].attempts) == ("parked", 3)
    assert kept.replay().chosen == 0, "a parked letter is replayed only when it is named"
    named = kept.replay(Choice(letters=(f"{flow.topic}:0:0",)), edit=MENDED)
    assert named.resolved == 1
    assert flow.ids() == [7]


def test_a_letter_is_open_again_when_the_table_is_restored_to_before_its_row(
    stream: MakeStream, letters: MakeLetters
) -> None:
    flow = stream()
    flow.produce(good(1), BAD)
    flow.land()
    kept = letters(flow)
    kept.keep()
    before = flow.state().version
    kept.replay(edit=MENDED)
    assert flow.ids() == [1, 7]

    flow.spark.sql(f"RESTORE TABLE {flow.table.sql} TO VERSION AS OF {before}")
    flow.produce(good(2))
    flow.land()
    assert flow.ids() == [1, 2]
    assert kept.replay(edit=MENDED).resolved == 1
    assert flow.ids() == [1, 2, 7]
    assert kept.statuses() == [(1, "resolved")]


def test_a_record_is_refused_to_be_mended_by_chance(stream: MakeStream, letters: MakeLetters) -> None:
    flow = stream()
    flow.produce(BAD)
    flow.land()
    kept = letters(flow)
    kept.keep()
    for expression, why in (("rand()", "deterministic"), ("nonsense(payload)", "nonsense"), ("(", "(")):
        with pytest.raises(UsageError, match=r"--edit") as refused:
            kept.replay(edit=Edit(expression=expression))
        assert why in str(refused.value)
    with pytest.raises(UsageError, match=r"not topic:partition:offset"):
        kept.replay(Choice(letters=("7",)))
    patched = kept.replay(edit=Edit(patch={"id": 9, "name": None}))
    assert patched.resolved == 1
    assert flow.ids() == [9]


def test_the_envelope_holds_twelve_fields_and_is_read_back_when_it_is_the_format(
    stream: MakeStream, letters: MakeLetters
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

    kept = letters(flow)
    kept.keep()
    rows = kept.rows()
    assert [bytes(r.message_payload) for r in rows] == [BAD, b"{\x81}"]
    assert [bytes(r.message_key) for r in rows] == [b"user-123", b"\xff"]
    assert [r.failure_code for r in rows] == ["TYPE_MISMATCH", "INVALID_UTF8"]
    assert {r.written_as for r in rows} == {"envelope"}
    assert kept.replay(edit=MENDED).resolved == 1
