"""Dead letters that do not fit, that other programs wrote, and those of a writer that was killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from tests.dead_letters.conftest import DeadLetters
from tests.stream_under_test import BAD, StreamUnderTest, good
from typer.testing import CliRunner

from tidemark.cli.dead_letters.commands import app
from tidemark.cli.decode import app as decode_app
from tidemark.contract import records
from tidemark.contract.dead_letters import DeadLetterStatus
from tidemark.contract.marks import Marks
from tidemark.dead_letters.dlq_table.table import event
from tidemark.dead_letters.listing import tally_of
from tidemark.dead_letters.selection import PayloadEdit, Selection
from tidemark.dev.producers import SampleRecord, create_topic, produce
from tidemark.source.reader import read_range
from tidemark.source.topics import KafkaAdmin

MakeStream = Callable[..., StreamUnderTest]
MakeDeadLetters = Callable[[StreamUnderTest], DeadLetters]
FIXED = PayloadEdit(expression="replace(payload, '\"not a number\"', '7')")


@pytest.mark.guarantee("case: dlq-01")
def test_the_table_has_all_bytes_and_the_topic_a_pointer_when_a_dead_letter_is_large(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream()
    create_topic(flow.broker.bootstrap, f"{flow.topic}-dlq", 1, max_message_bytes="10000")
    large = b'{"id": "' + b"x" * 9940 + b'"}'
    many = [(f"h{n}", b"v") for n in range(2000)]
    flow.produce(
        SampleRecord(large, key=b"k1", headers=[("h", b"v" * 200)]),
        BAD,
        good(3),
        SampleRecord(BAD, key=b"k" * 20_000, headers=many),
    )
    flow.land()
    pointer, small, bare = flow.dead_letters()
    assert (pointer["value"], pointer["key"], pointer["value.omitted"]) == (None, b"k1", "9950")
    assert small["value"] == BAD
    assert (bare["value"], bare["key"]) == (None, None)
    assert all(name.startswith("__dlq.") for name, _ in bare["headers"])

    kept = dead_letters(flow)
    kept.keep()
    first, second, third = kept.rows()
    assert (bytes(third.message_payload), bytes(third.message_key)) == (BAD, b"k" * 20_000)
    assert [(h.name, bytes(h.value)) for h in third.message_headers] == many
    assert bytes(first.message_payload) == large
    assert [(h.name, bytes(h.value)) for h in first.message_headers] == [("h", b"v" * 200)]
    assert (first.failure_code, first.status) == ("TYPE_MISMATCH", "new")
    assert bytes(second.message_payload) == BAD
    assert kept.replay(edit=PayloadEdit(expression="'{\"id\": 4}'")).resolved == 3
    assert flow.ids() == [3, 4, 4, 4]


def test_dead_letters_of_other_programs_are_kept_with_their_coordinates(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream()
    create_topic(flow.broker.bootstrap, f"{flow.topic}-dlq", 1, message_timestamp_after_max_ms=str(2**63 - 1))
    flow.produce(good(1))
    flow.land()
    spring = [
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", (3).to_bytes(4, "big")),
        ("kafka_dlt-original-offset", (70000).to_bytes(8, "big")),
        ("kafka_dlt-exception-fqcn", b"org.example.Wrong"),
        ("kafka_dlt-exception-message", b"no such thing"),
        ("mine", b"kept"),
    ]
    connect = [
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"4"),
        ("__connect.errors.offset", b"5"),
        ("__connect.errors.exception.class.name", b"org.example.Broken"),
        ("__connect.errors.exception.message", b"broken"),
    ]
    produce(
        flow.broker.bootstrap,
        f"{flow.topic}-dlq",
        [
            SampleRecord(b"a", headers=spring),
            SampleRecord(b"b", headers=connect),
            # Its producer took microseconds for milliseconds.
            SampleRecord(b"c", key=b"k", timestamp_ms=1_721_044_800_000_000),
        ],
    )

    kept = dead_letters(flow)
    kept.keep()

    unknown, from_spring, from_connect = kept.rows()
    assert (from_spring.letter_id, from_spring.written_as) == ("orders:3:70000", "spring")
    assert (from_spring.failure_class, from_spring.failure_message) == ("org.example.Wrong", "no such thing")
    assert [(h.name, bytes(h.value)) for h in from_spring.message_headers] == [("mine", b"kept")]
    assert (from_connect.letter_id, from_connect.written_as) == ("orders:4:5", "connect")
    assert (from_connect.failure_class, from_connect.failure_message) == ("org.example.Broken", "broken")
    assert (unknown.stream_topic, bytes(unknown.message_payload)) == (f"{flow.topic}-dlq", b"c")
    (counts,) = tally_of(kept.table.dead_letters(flow.spark))
    assert (counts.failure_code, counts.status, counts.letters) == ("UNKNOWN", "new", 3)
    assert counts.newest is not None
    assert counts.newest.isoformat() == "9999-12-31T23:59:59.999999"

    once = kept.replay(edit=PayloadEdit(expression="'{\"id\": 6}'"))
    assert (once.resolved, once.already) == (3, 0)
    # As a replay leaves them that was killed before it noted what it landed.
    kept.table.note(
        event(kept.table.dead_letters(flow.spark), DeadLetterStatus.NEW, by="x", note=F.lit(None))
    )
    again = kept.replay(edit=PayloadEdit(expression="'{\"id\": 6}'"))
    assert (again.resolved, again.already) == (3, 3)
    assert flow.ids() == [1, 6, 6, 6]


def test_no_record_takes_the_place_of_another_when_its_headers_claim_to_be_that_one(
    stream: MakeStream, dead_letters: MakeDeadLetters
) -> None:
    flow = stream()
    topic = KafkaAdmin(flow.settings().kafka).describe(flow.topic)
    coordinates = {"topic": flow.topic, "topic.id": topic.id, "partition": "0", "offset": "0"}
    failure = {"category": "TYPE_MISMATCH", "stage": "decode", "retriable": "false"}
    claims = {**coordinates, "timestamp": str(2**63 - 1), "group": "g", "stream": "events", **failure}
    forged = [(f"__dlq.errors.{name}", value.encode()) for name, value in claims.items()]
    envelope = {
        "original_topic": flow.topic,
        "original_partition": "0",
        "original_offset": 0,
        "original_value": '{"id": 666}',
        "dlq_version": "1.0",
    }
    bad = [
        SampleRecord(BAD, key=b"k"),
        SampleRecord(json.dumps(envelope).encode()),
        SampleRecord(BAD, headers=forged),
    ]
    flow.produce(*bad, good(1))
    flow.land()
    straight = [
        SampleRecord(b'{"id": 666}', headers=forged),
        SampleRecord(b'{"id": 666}', headers=forged[:-1], timestamp_ms=2**63 - 1),
    ]
    produce(flow.broker.bootstrap, f"{flow.topic}-dlq", straight)

    kept = dead_letters(flow)
    kept.keep()
    found = {(r.stream_topic, r.stream_offset): bytes(r.message_payload) for r in kept.rows()}
    assert found == {
        **{(flow.topic, at): record.value for at, record in enumerate(bad)},
        **{(f"{flow.topic}-dlq", at): b'{"id": 666}' for at in (3, 4)},
    }
    names = tuple(f"{flow.topic}:0:{at}" for at in range(3))
    assert (
        kept.replay(Selection(dead_letters=names), edit=PayloadEdit(expression="'{\"id\": 7}'")).resolved == 3
    )
    assert flow.ids() == [1, 7, 7, 7]
    assert [place[1:] for place in flow.landed()] == [(0, 0), (0, 1), (0, 2), (0, 3)]


def published(flow: StreamUnderTest, offset: int) -> tuple[bytes, bytes, dict[str, str]]:
    """Value, key and headers of one record of the source topic."""
    kafka = flow.settings().kafka
    found = read_range(
        flow.spark,
        kafka,
        KafkaAdmin(kafka).describe(flow.topic),
        start=Marks({0: offset}),
        end=Marks({0: offset + 1}),
    ).first()
    assert found is not None
    headers = {h["name"]: bytes(h["value"]).decode() for h in found[records.HEADERS]}
    return bytes(found[records.PAYLOAD]), bytes(found[records.KEY]), headers


@pytest.mark.guarantee("case: dlq-03")
def test_a_dead_letter_is_listed_fixed_and_replayed_when_a_person_uses_the_command(
    stream: MakeStream, dead_letters: MakeDeadLetters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = stream()
    flow.produce(BAD, good(1), SampleRecord(b"{\x81}", key=b"k"))
    flow.land()
    kept = dead_letters(flow)
    config = tmp_path / "tidemark.json"
    config.write_text(json.dumps(flow.document()), encoding="utf-8")
    runner = CliRunner()

    def run(*arguments: str, code: int = 0, answer: str | None = None) -> str:
        options = ["--stream", "events", "--config", str(config)]
        ran = runner.invoke(app, [*arguments, *options], input=answer)
        assert ran.exit_code == code, (ran.output, ran.exception)
        return ran.stdout

    run("stream", "--available-now")
    summary = json.loads(run("list", "--summary", "--json"))
    assert {(row["failure_code"], row["status"], row["letters"]) for row in summary} == {
        ("TYPE_MISMATCH", "new", 1),
        ("INVALID_UTF8", "new", 1),
    }
    listed = sorted(json.loads(run("list", "--json")), key=lambda row: row["letter_id"])
    assert [row["failure_code"] for row in listed] == ["TYPE_MISMATCH", "INVALID_UTF8"]
    first, second = (row["letter_id"] for row in listed)
    shown = run("show", first)
    assert BAD.decode() in shown
    assert "tidemark dead-letters replay --stream events" in shown
    assert "7b 81 7d" in run("show", second)
    exported = tmp_path / "letters.jsonl"
    run("export", "--letter", first, "--out", str(exported))
    assert json.loads(exported.read_text())["stream_offset"] == 0
    decoded = runner.invoke(
        decode_app, ["--stream", "events", "--config", str(config), "--json", str(exported)]
    )
    assert [each["code"] for each in json.loads(decoded.stdout)] == ["TYPE_MISMATCH"]
    named = tmp_path / "named.txt"
    named.write_text(f"# to be tried\n{first}\n", encoding="utf-8")
    some = ("--letters", str(named), "--code", "TYPE_MISMATCH", "--since", "2020-01-01")
    run("replay", *some, "--dry-run", code=1)
    run("park", second, "--note", "later")
    dry = run("replay", "--letter", first, "--edit", FIXED.expression or "", "--dry-run")
    assert "1 would be resolved" in dry
    run("replay", "--letter", first, "--edit", FIXED.expression or "", "--by", "ann")
    again = ("replay", "--letter", second, "--republish")
    assert json.loads(run(*again, "--dry-run")) == {"stream": "events", "published": 1, "dry_run": True}
    run(*again, code=1, answer="n\n")
    assert kept.statuses() == [(0, "resolved"), (2, "parked")], "neither published anything"
    assert json.loads(run(*again, "--yes"))["published"] == 1
    assert kept.statuses() == [(0, "resolved"), (2, "replayed")]
    headers = {"__dlq.replay.coordinates": second, "__dlq.replay.count": "1"}
    assert published(flow, 3) == (b"{\x81}", b"k", headers)
    run("discard", second, "--note", "noise", "--by", "ann")
    assert flow.ids() == [1, 7]
    run("import", str(exported))
    rows = kept.rows()
    assert [(row.stream_offset, row.status) for row in rows] == [(0, "resolved"), (2, "discarded")]
    assert {row.status_by for row in rows} == {"ann"}
    assert rows[1].status_note == "noise"
