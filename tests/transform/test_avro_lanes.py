"""The two lanes of Avro: what the fast one takes is what the strict one says, and it takes what is sound."""

from __future__ import annotations

import io
import json
import random
import struct
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidemark.config.decoding import FieldOptions
from tidemark.transform.decode.arrow_types import struct_type
from tidemark.transform.decode.avro.defaults import varint
from tidemark.transform.decode.avro.fast import FEW, AvroArrow
from tidemark.transform.decode.avro.strict import AvroReading, AvroStrict, reading_of
from tidemark.transform.decode.outcome import Outcome
from tidemark.transform.schema import finish_fields
from tidemark.transform.schema_avsc import load
from tidemark.transform.schema_ddl import fields_from_ddl


def record(name: str = "R", **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


KIND = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
INNER = record("In", a="int", b=["null", "string"], t=logical("long", "timestamp-millis"))
SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "scalars": (
        "b BOOLEAN, i INT, l BIGINT NOT NULL, f FLOAT, d DOUBLE, s STRING, y BINARY, ms TIMESTAMP,"
        "us TIMESTAMP, lu TIMESTAMP_NTZ, dt DATE, dec DECIMAL(12,3), fd DECIMAL(20,4), k STRING, il BIGINT,"
        "big DECIMAL(38,18)",
        record(
            b="boolean",
            i=["null", "int"],
            l=["long", "null"],
            f="float",
            d="double",
            s="string",
            y=["bytes", "null"],
            ms=logical("long", "timestamp-millis"),
            us=["null", logical("long", "timestamp-micros")],
            lu=logical("long", "local-timestamp-micros"),
            dt=logical("int", "date"),
            dec=logical("bytes", "decimal", precision=12, scale=3),
            fd={"name": "F", "size": 5, **logical("fixed", "decimal", precision=9, scale=2)},
            k=KIND,
            il=["int", "long"],
            big=logical("bytes", "decimal", precision=38, scale=18),
        ),
    ),
    "other types": (
        "i SMALLINT, l DOUBLE, f DOUBLE, d FLOAT, n STRING, e TIMESTAMP",
        record(i="int", l="long", f="float", d="double", n="long", gone=["null", "string", KIND], e="long"),
    ),
    "nested": (
        "st STRUCT<a:INT,b:STRING,t:TIMESTAMP>, ls ARRAY<STRUCT<a:INT,b:STRING>>, m MAP<STRING,BIGINT>,"
        "u STRUCT<member0:STRING,member1:INT>, ll ARRAY<ARRAY<INT>>, n STRUCT<a:INT NOT NULL>",
        record(
            st=INNER,
            ls={"type": "array", "items": "In"},
            m={"type": "map", "values": ["null", "long"]},
            u=["null", "string", "int"],
            ll={"type": "array", "items": {"type": "array", "items": "int"}},
            gone={"type": "map", "values": {"type": "array", "items": "string"}},
            n=["null", "In"],
        ),
    ),
}  # fmt: skip


def reading(
    ddl: str, writer: Any, reader: Any = None, *, unknown: str = "ignore", **options: FieldOptions
) -> AvroReading:
    fields, wrong = finish_fields(fields_from_ddl(ddl), options)
    assert not wrong
    final = None if reader is None else load(json.dumps(reader))
    return reading_of(fields, writer=load(json.dumps(writer)), reader=final, unknown_fields=unknown)


def avro(schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def both(how: AvroReading, payloads: list[bytes], start: int = 0) -> tuple[list[bool], list[Outcome]]:
    """Which payloads the fast lane takes, and what the strict one says of each; they agree."""
    padded = payloads + payloads[:1] * max(0, FEW - len(payloads))
    rows, taken, _ = AvroArrow(how).read(pa.array(padded, pa.binary()), start)
    rows.validate(full=True)
    strict = [AvroStrict(how).decide(payload, start) for payload in payloads]
    wanted = pa.array([outcome.row for outcome in strict], struct_type(how.fields))
    flags = taken.to_pylist()[: len(payloads)]
    for at, flag in enumerate(flags):
        assert rows[at].is_valid == flag
        if flag:
            pair = plain(rows[at].as_py()), plain(wanted[at].as_py())
            assert repr(pair[0]) == repr(pair[1]), (payloads[at], strict[at])
    return flags, strict


def plain(value: Any) -> Any:
    """A map in the order of its keys."""
    if isinstance(value, list):
        of_map = value and all(isinstance(each, tuple) for each in value)
        return sorted((k, plain(v)) for k, v in value) if of_map else [plain(each) for each in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


class Writer:
    """Random bytes of a schema: mostly what its columns hold."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._names: dict[str, Any] = {}

    def payload(self, schema: Any) -> bytes:
        chance, sound = self.chance, bytearray(self._of(schema))
        if chance.random() < 0.2:
            at = chance.randrange(len(sound) + 1)
            change = chance.randrange(4)
            if change == 0:
                del sound[at:]
            elif change == 1:
                sound[at : at + 1] = bytes(
                    [chance.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, chance.randrange(256)])]
                )
            else:
                sound[at:at] = chance.randbytes(chance.randint(1, 3)) if change == 2 else b"\xff" * 9
        return bytes(sound)

    def _of(self, schema: Any) -> bytes:
        chance = self.chance
        if isinstance(schema, list):
            at = chance.randrange(len(schema))
            return varint(at) + self._of(schema[at])
        kind = self._names.get(schema, {"type": schema}) if isinstance(schema, str) else schema
        if "name" in kind:
            self._names[kind["name"]] = kind
        rare = chance.random() < 0.02
        match kind["type"]:
            case "null":
                return b""
            case "boolean":
                return bytes([chance.randrange(3 if rare else 2)])
            case "int" | "long":
                bits = 31 if kind["type"] == "int" else 63
                size = chance.choice([7, 15, 20, 31, bits]) if rare else 14
                return varint(chance.randint(-(1 << size), (1 << size) - 1))
            case "float" | "double":
                form = "<f" if kind["type"] == "float" else "<d"
                value = (
                    chance.choice([float("nan"), float("-inf"), -0.0, 3e38]) if rare else chance.gauss(0, 1e9)
                )
                return struct.pack(form, value)
            case "enum":
                return varint(chance.randrange(len(kind["symbols"]) + rare))
            case "fixed":
                return (
                    chance.randrange(10**6).to_bytes(kind["size"], "big")
                    if not rare
                    else b"\x7f" * kind["size"]
                )
            case "bytes" | "string":
                text = "aé😀".encode()[: chance.choice([0, 1, 3, 7])]
                if kind.get("logicalType") == "decimal":
                    number = chance.randint(-(10**9), 10**9) << (chance.choice([40, 90, 100]) if rare else 0)
                    text = number.to_bytes(
                        number.bit_length() // 8 + chance.choice([1, 1, 4]), "big", signed=True
                    )
                elif rare:
                    text += b"\xff"
                return varint(len(text)) + text
            case "array" | "map":
                return b"".join(self._block(kind) for _ in range(chance.choice([0, 1, 1, 2]))) + b"\x00"
            case _:
                return b"".join(self._of(field["type"]) for field in kind["fields"])

    def _block(self, kind: Any) -> bytes:
        items = []
        for _ in range(self.chance.randint(1, 3)):
            key = f"k{self.chance.randrange(10**4)}".encode() if kind["type"] == "map" else None
            item = self._of(kind["values" if key else "items"])
            items.append(item if key is None else varint(len(key)) + key + item)
        body = b"".join(items)
        if self.chance.random() < 0.3:
            return varint(-len(items)) + varint(len(body)) + body
        return varint(len(items)) + body


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SCHEMAS)
def test_both_lanes_say_the_same_when_records_are_random(name: str, seed: int) -> None:
    ddl, schema = SCHEMAS[name]
    options = {"e": FieldOptions(epoch="ms")} if name == "other types" else {}
    writer = Writer(seed)
    payloads = [b"\x00" * seed + writer.payload(schema) for _ in range(600)]
    taken, strict = both(reading(ddl, schema, **options), payloads, start=seed)
    sound = [outcome.row is not None for outcome in strict]
    assert sum(sound) > len(payloads) // 4
    assert sum(taken) > 0.95 * sum(sound)


def test_a_record_is_taken_to_its_last_byte_or_not_at_all() -> None:
    ddl, schema = SCHEMAS["nested"]
    good = avro(
        schema,
        {
            "st": {"a": 1, "b": "x", "t": 0},
            "ls": [{"a": 1, "b": None, "t": 1}],
            "m": {"a": 1},
            "u": "x",
            "ll": [[1], []],
            "gone": {"x": ["y"]},
            "n": None,
        },
    )
    whole = [good] * FEW
    cut, longer = [good[:n] for n in range(len(good))], [good + b"\x00", good + good]
    taken, strict = both(reading(ddl, schema), [*whole, *cut, *longer])
    assert taken == [True] * FEW + [False] * (len(good) + 2)
    assert {outcome.code for outcome in strict[FEW:]} == {"MALFORMED_AVRO"}
    # What one record lacks, the next one does not give.
    taken, _ = both(
        reading(ddl, schema), [good, good[:-1], good[:-3], good + good[:1], b"\x00\x00" + good, good] * FEW
    )
    assert taken == [True, False, False, False, False, True] * FEW


def test_malformed_bytes_are_reported_with_their_place() -> None:
    schema = record(id="long", note=["null", "string"], kind=KIND, tags={"type": "array", "items": "double"})
    how = reading("id BIGINT", schema)
    reported = {
        b"\x0e\x02\x0aabc": "5 bytes, 3 are left, at byte 3 in field note",
        b"\x0e\x04": "branch 2 of 2, at byte 1 in field note",
        b"\x0e\x00\x04\x00": "symbol 2 of 2, at byte 2 in field kind",
        b"\x0e\x00\x00\x02\x00": "8 bytes, 1 are left, at byte 4 in field tags[]",
        b"\x0e\x00\x00\x00zz": "2 bytes after the record, at byte 4",
        b"\xff" * 11: "a number of more than 10 bytes, at byte 0 in field id",
        b"\x80": "the record ends within a number, at byte 1 in field id",
        b"\x0e\x00\x00" + varint(10**12): f"{10**12} items, 0 bytes are left, at byte 3 in field tags",
    }
    _, strict = both(how, list(reported))
    assert [outcome.faults[0].found for outcome in strict] == list(reported.values())
    framed = AvroStrict(how).decide(b"\x00\x00\x00\x00\x01\x0e\x04", 5)
    assert framed.faults[0].found == "branch 2 of 2, at byte 6 in field note"


def test_a_reader_resolves_what_another_schema_wrote() -> None:
    writer = record(
        id="int", nm="string", k={**KIND, "symbols": ["A", "B", "C"]}, v="float", g=["null", "int"]
    )
    reader = record(v="double", id="long")
    reader["fields"] += [
        {"name": "name", "type": "string", "aliases": ["nm"]},
        {"name": "k", "type": {**KIND, "default": "A"}},
        {"name": "g", "type": ["null", "string", "long"]},
        {"name": "d", "type": logical("bytes", "decimal", precision=5, scale=2), "default": "\u0001\u00ff"},
        {"name": "l", "type": {"type": "array", "items": "string"}, "default": ["a"]},
        {"name": "o", "type": ["int", "null"], "default": 7},
    ]
    ddl = """id BIGINT, name STRING, k STRING, v DOUBLE, g STRUCT<member0: STRING, member1: BIGINT>,
             d DECIMAL(5,2), l ARRAY<STRING>, o INT"""
    values = [{"id": 1, "nm": "x", "k": k, "v": 0.5, "g": g} for k, g in (("C", 2), ("B", None))] * FEW
    taken, strict = both(reading(ddl, writer, reader), [avro(writer, value) for value in values])
    assert all(taken)
    common = {"id": 1, "name": "x", "v": 0.5, "d": Decimal("5.11"), "l": ["a"], "o": 7}
    assert strict[0].row == {**common, "k": "A", "g": {"member0": None, "member1": 2}}
    assert strict[1].row == {**common, "k": "B", "g": None}


def test_a_symbol_is_named_with_its_field_when_the_reader_lacks_it() -> None:
    writer, reader = record(k={**KIND, "symbols": ["A", "B", "C"]}, x="int"), record(k=KIND, x="int")
    good, bad = (avro(writer, {"k": symbol, "x": 1}) for symbol in "AC")
    taken, strict = both(reading("k STRING", writer, reader), [good, bad] * FEW)
    assert taken == [True, False] * FEW
    (fault,) = strict[1].faults
    assert (fault.code, fault.field, fault.expected, fault.found) == (
        "TYPE_MISMATCH",
        "k",
        "one of A, B",
        "C",
    )
    # Where the stream has no such column, the symbol is nobody's.
    assert AvroStrict(reading("x INT", writer, reader)).decide(bad).row == {"x": 1}


def test_schemas_that_do_not_resolve_are_reported_when_a_record_comes() -> None:
    how = reading("a STRING", record(a="int"), record(a="string"))
    _, (outcome,) = both(how, [b"\x02"])
    assert outcome.faults[0].found == "int is no string of the reader's schema, at byte 0 in field a"
    how = reading("b STRING", record(a="int"), record(a="int", b="string"))
    _, (outcome,) = both(how, [b"\x02"])
    assert outcome.faults[0].found == "the writer has no field b, and it has no default, at byte 0"


def test_the_field_is_named_when_a_value_is_out_of_the_range_of_its_column() -> None:
    schema = record(
        n=record("N", t=logical("long", "timestamp-millis")),
        d=logical("bytes", "decimal", precision=10, scale=2),
        m={"type": "map", "values": "int"},
    )
    how = reading("n STRUCT<t: TIMESTAMP>, d DECIMAL(10,2), m MAP<STRING, INT>", schema)
    good = varint(0) + b"\x02\x01\x00"
    far, long = varint(2**62) + b"\x02\x01\x00", varint(0) + b"\x28" + b"\x7f" * 20 + b"\x00"
    empty, key = varint(0) + b"\x00\x00", varint(0) + b"\x02\x01\x02\x02\xff\x02\x00"
    taken, strict = both(how, [good, far, long, empty, key])
    assert taken == [True, False, False, False, False]
    assert [(f.code, f.field, f.found) for outcome in strict for f in outcome.faults] == [
        ("TIMESTAMP_OUT_OF_RANGE", "n.t", str(2**62 * 1000)),
        ("DECIMAL_PRECISION", "d", "20 bytes"),
        ("DECIMAL_PRECISION", "d", "0 bytes"),
        ("INVALID_UTF8", None, None),
    ]


def test_the_last_of_a_key_counts_when_a_map_has_it_twice() -> None:
    how = reading("m MAP<STRING, INT>", record(m={"type": "map", "values": "int"}))
    taken, strict = both(how, [b"\x04\x02a\x02\x02a\x04\x00", b"\x04\x02a\x02\x02b\x04\x00"] * FEW)
    assert taken == [False, True] * FEW
    assert strict[0].row == {"m": {"a": 2}}


def test_unknown_fields_are_counted_kept_or_refused() -> None:
    writer = record(
        id="int",
        d="double",
        f="float",
        at=logical("long", "timestamp-micros"),
        day=logical("int", "date"),
        y="bytes",
        s=["null", "string"],
        r=record("In", a="int", b=["null", "string"]),
    )
    at = datetime(2024, 7, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    value = {"id": 1, "d": 1e7, "f": 0.1, "at": at, "day": date(2024, 7, 1), "y": b"ab", "s": None}
    payload = avro(writer, {**value, "r": {"a": 1, "b": None}})
    taken, (outcome, *_) = both(reading("id INT", writer), [payload] * FEW)
    assert (all(taken), outcome.row, outcome.unknown, outcome.extra) == (True, {"id": 1}, 7, None)
    taken, (outcome, *_) = both(reading("id INT", writer, unknown="keep"), [payload] * FEW)
    assert (any(taken), outcome.extra) == (
        False,
        {
            "d": "1.0E7",
            "f": "0.1",
            "at": "2024-07-01 12:00:00.5",
            "day": "2024-07-01",
            "y": "YWI=",
            "s": None,
            "r": '{"a":1}',
        },
    )
    _, (outcome, *_) = both(reading("id INT", writer, unknown="reject"), [payload] * FEW)
    assert (outcome.code, [f.field for f in outcome.faults]) == (
        "UNKNOWN_FIELD",
        ["d", "f", "at", "day", "y", "s", "r"],
    )


def test_a_type_that_contains_itself_is_read_over_when_no_column_wants_it() -> None:
    node = {"name": "Node", "type": "record", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    how = reading("id INT", record(chain=node, id="int"), record(id="int"))
    _, strict = both(how, [b"\x02" * 3 + b"\x00\x0e", b"\x02" * 10**6])
    assert strict[0].row == {"id": 7}
    assert strict[1].code == "MALFORMED_AVRO"


@pytest.mark.parametrize("count", [10**3, 10**6, 2**31 - 9, 2**62, -(2**63)])
def test_a_record_cannot_take_the_memory_or_the_time_when_it_claims_many_items(count: int) -> None:
    ddl, schema = SCHEMAS["nested"]
    writer = Writer(1)
    payloads = [writer.payload(schema) for _ in range(500)]
    start = avro(INNER, {"a": 1, "b": None, "t": 0})
    payloads += [start + varint(count) + b"\x02\x00\x00" * 1000] * 20
    started = time.process_time()
    taken, strict = both(reading(ddl, schema), payloads)
    assert time.process_time() - started < 5
    assert not any(taken[500:])
    assert sum(taken) > 0.9 * sum(outcome.row is not None for outcome in strict)
