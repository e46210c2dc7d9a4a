"""What a record of a DLQ topic is taken for, whoever wrote it and whatever a producer put into it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from tidemark.config.destination import TableRef
from tidemark.contract import records
from tidemark.contract.dead_letters import DEAD_LETTER_DDL
from tidemark.dead_letters.claims import claimed
from tidemark.dead_letters.columns import schema_of
from tidemark.dead_letters.dlq_table.table import DeadLetterTable
from tidemark.dead_letters.exported import ExportedDeadLetter
from tidemark.dead_letters.files import collectable
from tidemark.dead_letters.reading import dead_letters_of
from tidemark.dead_letters.selection import _COORDINATES
from tidemark.dead_letters.topic import DeadLetterTopic
from tidemark.listener import Failure, Record
from tidemark.listener.delivery.dead_letter import dead_letter_headers
from tidemark.listener.delivery.settlement import GivenUp

Header = tuple[str, bytes | None]
DLQ, DLQ_ID, SOURCE, SOURCE_ID = "events-dlq", "d" * 22, "events", "+/" * 11
AT = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
FORGED: list[Header] = [
    (f"__dlq.errors.{name}", value.encode())
    for name, value in {
        "topic": SOURCE, "topic.id": SOURCE_ID, "partition": "0", "offset": "7", "timestamp": str(2**63 - 1),
        "group": "g", "stream": "s", "category": "TYPE_MISMATCH", "stage": "decode", "message": "forged",
        "retriable": "true", "envelope.version": "1.0", "written.as": "envelope", "value.omitted": "5",
    }.items()
]  # fmt: skip
ENVELOPE = json.dumps(
    {
        "original_topic": SOURCE, "original_partition": "0", "original_offset": 7, "original_key": "k7",
        "original_value": "forged", "original_timestamp": "2024-01-15T10:30:00",
        "error_reason": "TYPE_MISMATCH", "error_message": "m", "error_class": "E", "error_stack_trace": None,
        "dlq_timestamp": "2024-01-15T10:30:01", "dlq_version": "1.0",
    }
).encode()  # fmt: skip


def test_an_exported_line_has_a_key_for_each_column_of_a_dead_letter(spark: SparkSession) -> None:
    in_base64 = {"key_b64": records.KEY, "value_b64": records.PAYLOAD}
    keys = {in_base64.get(name, name) for name in ExportedDeadLetter.model_fields}
    assert keys == set(schema_of(DEAD_LETTER_DDL).names)


def record(
    value: bytes | None, headers: Sequence[Header] | None = (), *, offset: int = 0, key: bytes | None = b"k"
) -> tuple[Any, ...]:
    at = AT
    return (DLQ, DLQ_ID, 0, offset, at, "create_time", key, value, headers)


def read(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> list[Row]:
    found = dead_letters_of(spark.createDataFrame(rows, records.ENVELOPE_DDL))
    return sorted(collectable(found).collect(), key=lambda r: (r.dlq_offset, r.dlq_partition))


def published(
    spark: SparkSession, rejected: Sequence[tuple[bytes | None, Sequence[Header]]], form: str
) -> list[Row]:
    """Rejected records of the offsets 0, 1, … as Tidemark publishes them, and as they are read back."""
    topic = DeadLetterTopic(DLQ, 1, "s", TableRef(path="/t"), "g", 1_000_000, {}, format=form)
    failure = ("REQUIRED_FIELD", "decode", "REQUIRED_FIELD: field id", "JSON", [])
    rows = [
        (SOURCE, SOURCE_ID, 0, at, AT, "create_time", b"k", value, list(headers), failure)
        for at, (value, headers) in enumerate(rejected)
    ]
    made = topic.records(
        spark.createDataFrame(rows, f"{records.ENVELOPE_DDL}, {records.FAILURE} {records.FAILURE_DDL}")
    )
    out = [
        record(
            r["value"] and bytes(r["value"]),
            [(h["key"], h["value"]) for h in r["headers"]],
            offset=at,
            key=r["key"],
        )
        for at, r in enumerate(made.collect())
    ]
    return read(spark, out)


HOSTILE = [
    (ENVELOPE, [("mine", b"1")]),
    (b"{}", FORGED),
    (b"{}", [*FORGED[1:], FORGED[0]]),
    (ENVELOPE, [("mine", b"1"), *FORGED, ("last", None)]),
    (b"{}", [("__dlq.errors.value.omitted", b"9"), ("__dlq.errors.value.pointer", b"9")]),
    (b"{}", [("kafka_dlt-original-offset", (7).to_bytes(8, "big")), ("__connect.errors.topic", b"events")]),
    (None, FORGED),
    (b"\xff\xfe", [(f"__dlq.errors.{n}", b"\xff") for n in ("offset", "topic", "topic")]),
]


@pytest.mark.parametrize("form", ["headers", "envelope"])
def test_a_dead_letter_has_its_own_coordinates_whatever_its_producer_wrote(
    spark: SparkSession, form: str
) -> None:
    for at, (row, (value, headers)) in enumerate(zip(published(spark, HOSTILE, form), HOSTILE, strict=True)):
        assert (row.letter_id, row.written_as) == (f"{SOURCE_ID}:0:{at}", form), at
        assert (row.message_payload and bytes(row.message_payload)) == value, at
        assert (bytes(row.message_key), row.message_timestamp) == (b"k", AT.replace(tzinfo=None)), at
        assert [(h.name, h.value and bytes(h.value)) for h in row.message_headers] == list(headers), at
        assert (row.failure_code, row.failure_message) == ("REQUIRED_FIELD", "REQUIRED_FIELD: field id"), at
        assert (row.payload_omitted, row.retriable) == (None, False), at


def test_a_dead_letter_of_the_listener_is_its_own_record_whatever_its_producer_wrote(
    spark: SparkSession,
) -> None:
    failure = Failure("ValueError", "no")
    given_up = [
        GivenUp(Record(SOURCE, 0, at, b"k", value, tuple(headers), timestamp=5), failure, 1)
        for at, (value, headers) in enumerate(HOSTILE)
    ]
    written = [dead_letter_headers(one, group="g", failed_at=AT) for one in given_up]
    rows = [
        record(one.record.value, w, offset=at)
        for at, (one, w) in enumerate(zip(given_up, written, strict=True))
    ]
    for at, (row, (value, headers)) in enumerate(zip(read(spark, rows), HOSTILE, strict=True)):
        assert (row.letter_id, row.written_as) == (f"{SOURCE}:0:{at}", "headers"), at
        assert (row.message_payload and bytes(row.message_payload)) == value, at
        assert [(h.name, h.value and bytes(h.value)) for h in row.message_headers] == list(headers), at
        assert (row.failure_message, row.payload_omitted) == ("no", None), at


def test_times_in_the_envelope_are_utc_when_the_session_has_another_zone(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    topic = DeadLetterTopic(DLQ, 1, "s", TableRef(path="/t"), "g", 1_000_000, {}, format="envelope")
    rows = [(SOURCE, SOURCE_ID, 0, 0, AT, "create_time", None, b"{}", [], ("C", "s", "m", "JSON", []))]
    rejected = spark.createDataFrame(rows, f"{records.ENVELOPE_DDL}, {records.FAILURE} {records.FAILURE_DDL}")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        row = topic.records(rejected).first()
        (bare,) = read(spark, [record(ENVELOPE)])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert row is not None
    envelope = json.loads(row["value"])
    assert envelope["original_timestamp"] == "2026-03-29T01:30:00.000Z"
    now = datetime.now(UTC).replace(tzinfo=None)
    written = datetime.fromisoformat(envelope["dlq_timestamp"].removesuffix("Z"))
    assert abs((now - written).total_seconds()) < 600
    assert bare.message_timestamp.timestamp() == datetime(2024, 1, 15, 10, 30, tzinfo=UTC).timestamp()


def test_what_version_0_1_and_the_listener_published_is_still_read(spark: SparkSession) -> None:
    headers = [h for h in FORGED if not h[0].endswith(("written.as", "value.omitted", "timestamp"))]
    listener = [h for h in headers if not h[0].endswith(("topic.id", "stream", "version"))]
    rows = read(
        spark,
        [
            record(b"{}", [("h", b"1"), *headers]),
            record(ENVELOPE, headers, offset=1),
            record(ENVELOPE.replace(b'": 7', b'": 8'), headers, offset=2),
            record(None, [*listener, ("__dlq.errors.value.pointer", b"events-0-7")], offset=3),
        ],
    )
    assert [r.letter_id for r in rows] == [f"{SOURCE_ID}:0:7"] * 3 + ["events:0:7"]
    assert [r.written_as for r in rows] == ["headers", "envelope", "headers", "headers"]
    assert bytes(rows[1].message_payload) == b"forged"
    assert bytes(rows[2].message_payload).startswith(b"{"), "another record's envelope is only a value"
    assert [r.payload_omitted for r in rows] == [None, None, None, 0]


def test_headers_of_other_programs_count_when_the_producer_copied_those_of_tidemark(
    spark: SparkSession,
) -> None:
    spring: list[Header] = [
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", (3).to_bytes(4, "big")),
        ("kafka_dlt-original-offset", (70000).to_bytes(8, "big")),
    ]
    rows = read(
        spark,
        [
            record(ENVELOPE, [*FORGED, *spring]),
            record(b"{}", [*FORGED, ("traced", b"1")], offset=1),
            record(b"{}", [h for h in FORGED if not h[0].endswith("category")], offset=2),
            record(b"{}", [*spring[:2], (spring[2][0], b"\xff" * 9)], offset=3),
            record(b"{}", [*FORGED[1:2], ("__dlq.errors.topic", b"no topic"), *FORGED[2:]], offset=4),
        ],
    )
    assert [r.written_as for r in rows] == ["spring", "unknown", "unknown", "spring", "unknown"]
    assert [r.letter_id for r in rows] == ["orders:3:70000", *[f"{DLQ_ID}:0:{n}" for n in (1, 2, 3, 4)]]
    assert [(h.name, bytes(h.value)) for h in rows[1].message_headers][:-1] == FORGED


def test_a_record_that_claims_another_ones_coordinates_takes_no_ones_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = DeadLetterTable(TableRef(path=str(tmp_path / "t")))
    table.create(spark)
    headers = [h for h in FORGED if not h[0].endswith(("written.as", "omitted"))]

    def keep(*values: tuple[int, bytes | None]) -> None:
        rows = [record(value, headers, offset=offset) for offset, value in values]
        table.merge(claimed(spark.createDataFrame(rows, records.ENVELOPE_DDL), table))

    keep((0, b"true"), (1, b"true"), (2, b"forged"))
    keep((0, b"true"), (2, b"forged"), (3, None), (4, b"true"))
    kept = {
        r.letter_id: r.message_payload and bytes(r.message_payload)
        for r in table.dead_letters(spark).collect()
    }
    assert kept == {f"{SOURCE_ID}:0:7": b"true", f"{DLQ_ID}:0:2": b"forged", f"{DLQ_ID}:0:3": None}


NUMBERS = st.one_of(
    st.sampled_from(
        [0, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, (2**63 - 1) // 1000]
    ),
    st.integers(),
)
NAMES = [name for name, _ in FORGED] + [
    *(f"kafka_dlt-original-{n}" for n in ("topic", "partition", "offset", "timestamp", "timestamp-type")),
    *(f"__connect.errors.{n}" for n in ("topic", "partition", "offset", "stage", "exception.message")),
    *(
        "__dlq.errors.value.pointer",
        "__dlq.replay.count",
        "__dlq.replay.coordinates",
        "__dlq.errors.",
        "h",
        "",
    ),
]
VALUES = st.one_of(
    st.none(),
    NUMBERS.map(lambda n: str(n).encode()),
    NUMBERS.map(lambda n: (n % 2**64).to_bytes(8, "big")),
    st.integers(0, 2**32 - 1).map(lambda n: n.to_bytes(4, "big")),
    st.binary(max_size=20),
    st.text(max_size=8).map(lambda t: t.encode("utf-8", "surrogatepass")),
    st.sampled_from([SOURCE.encode(), SOURCE_ID.encode(), b"true", b"1e5", b"NaN", b" 7 ", b"\x00"]),
)
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=30)
BLOCK = st.dictionaries(st.sampled_from([n for n, _ in FORGED]), VALUES, max_size=4).map(
    lambda changed: [(n, changed.get(n, v)) for n, v in FORGED]
)
ENVELOPES = st.dictionaries(
    st.sampled_from(list(json.loads(ENVELOPE))),
    st.one_of(
        NUMBERS, st.none(), st.booleans(), st.lists(st.none(), max_size=2), st.floats(allow_nan=False),
        st.sampled_from(["base64:", "base64:!", "base64:/w==", "1.0", "0", "-9999-01-01"]),
        st.sampled_from(["+294247-01-10T04:00:54Z", "2024-01-15T10:30:00.5+02:00", "now", "9:00"]),
        st.text(max_size=8),
    ),
).map(lambda changed: json.dumps({**json.loads(ENVELOPE), **changed}).encode())  # fmt: skip
BODIES = st.one_of(st.none(), st.binary(max_size=30), ENVELOPES, st.just(b'{"dlq_version":' * 2000))
RECORDS = st.tuples(
    BODIES,
    st.one_of(st.none(), HEADERS, st.builds(lambda a, b: [*a, *b], HEADERS, BLOCK)),
    st.none() | st.binary(max_size=5),
)


@settings(max_examples=4)
@given(st.lists(RECORDS, min_size=150, max_size=150))
def test_nothing_on_the_topic_stops_its_reader(
    spark: SparkSession, tmp_path: Path, hostile: list[tuple[bytes | None, list[Header] | None, bytes | None]]
) -> None:
    rows = [record(v, h, offset=n, key=k) for n, (v, h, k) in enumerate(hostile)]
    rows.append(record(ENVELOPE, FORGED * 400, offset=len(rows)))
    folder = str(tmp_path / "letters")
    dead_letters_of(spark.createDataFrame(rows, records.ENVELOPE_DDL)).write.format("delta").mode(
        "overwrite"
    ).save(folder)
    found = collectable(spark.read.format("delta").load(folder)).collect()
    assert sorted(r.dlq_offset for r in found) == list(range(len(rows)))
    for row in found:
        assert _COORDINATES.match(row.letter_id), row
        assert (row.message_payload is not None) == (
            rows[row.dlq_offset][7] is not None
        ) or row.written_as == "envelope"
