"""Sample events: the same for a seed, spoiled as they say, in the shape of the schema files."""

from __future__ import annotations

import io
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest

from tidemark.config.decoding import Format
from tidemark.contract.failure_codes import FailureCode
from tidemark.dev.samples import SPOILED, sample_events

SCHEMAS = Path(__file__).parents[2] / "conf" / "schemas"


def test_the_same_seed_gives_the_same_events() -> None:
    assert list(sample_events(500, seed=7)) == list(sample_events(500, seed=7))
    assert list(sample_events(500, seed=7)) != list(sample_events(500, seed=8))


def test_shares_are_kept_and_every_kind_of_fault_appears() -> None:
    events = list(sample_events(30_000, bad_share=0.02, tombstone_share=0.01))
    assert Counter(e.format for e in events) == dict.fromkeys(Format, 10_000)
    bad = [e for e in events if e.fault]
    assert 500 <= len(bad) <= 700
    assert 240 <= sum(e.record.value is None for e in events) <= 360
    assert {(e.format, e.fault) for e in bad} == {(f, code) for f in Format for code in SPOILED[f]}
    assert not [
        e for e in sample_events(1000, bad_share=0, tombstone_share=0) if e.fault or not e.record.value
    ]


def test_only_the_chosen_faults_appear() -> None:
    chosen = [FailureCode.COLUMN_COUNT, FailureCode.TYPE_MISMATCH]
    events = list(sample_events(3000, bad_share=0.5, faults=chosen))
    assert {e.fault for e in events} == {*chosen, None}
    assert not [e for e in events if e.format is Format.AVRO and e.fault]


def test_good_events_say_the_same_in_every_format() -> None:
    rows: dict[Format, dict[str, str]] = {}
    schema = fastavro.schema.load_schema(str(SCHEMAS / "user-events.avsc"))
    for fmt in Format:
        (event,) = sample_events(1, formats=[fmt], bad_share=0, tombstone_share=0)
        value = event.record.value
        assert value is not None
        if fmt is Format.JSON:
            row = json.loads(value, parse_float=Decimal)
        elif fmt is Format.CSV:
            names = ("user_id", "event_type", "amount", "cob", "event_time")
            row = dict(zip(names, value.decode().split(","), strict=True))
        else:
            row = fastavro.schemaless_reader(io.BytesIO(value), schema, None)
            row |= {"cob": row["cob"].isoformat(), "event_time": row["event_time"].isoformat()}
        rows[fmt] = row | {"amount": Decimal(row["amount"]), "event_time": row["event_time"][:26]}
    assert rows[Format.JSON] == rows[Format.CSV] == rows[Format.AVRO]
    assert rows[Format.JSON]["cob"] == "2024-01-15"


@pytest.mark.parametrize(
    "code", [FailureCode.MALFORMED_JSON, FailureCode.TRAILING_DATA, FailureCode.INVALID_UTF8]
)
def test_a_spoiled_document_is_no_json(code: FailureCode) -> None:
    (event,) = sample_events(1, formats=[Format.JSON], bad_share=1, tombstone_share=0, faults=[code])
    assert event.record.value is not None
    with pytest.raises(ValueError, match=r"."):
        json.loads(event.record.value)
