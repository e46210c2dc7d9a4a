"""Schema ids over a registry's HTTP API: a batch widens its plan, an outage is not the record's fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.schema_registry import V1, Registry, framed, record
from tests.transform.samples import code, decoded, envelopes, outcomes, plan_of

from tidemark.config.decoding import AvroOptions
from tidemark.contract.errors import NonRetriableError, RetriableError
from tidemark.transform import SchemaRegistry, explain, unknown_ids, widen, with_registered
from tidemark.transform import registry as registry_module


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as running:
        yield running


PAYLOADS: list[bytes | None] = [
    framed(1, b"\x02"),
    framed(2, b"\x04\x02x"),
    framed(9, b"\x02"),
    framed(1, b""),
]


def test_a_batch_brings_its_schemas_when_the_plan_does_not_know_them(
    spark: SparkSession, tmp_path: Path, registry: Registry
) -> None:
    avro = {"framing": "confluent", "registry": registry.url}
    plan = plan_of(spark, tmp_path, "a INT, b STRING", supported_formats=["AVRO"], avro=avro)
    client = SchemaRegistry.of(AvroOptions.model_validate(avro))
    assert client is not None
    batch = envelopes(spark, PAYLOADS)
    missing = unknown_ids(batch, plan)
    assert missing == {1, 2, 9}
    wider = widen(plan, missing, client)
    assert unknown_ids(batch, wider) == {9}, "it may be registered meanwhile"
    found = outcomes(spark, PAYLOADS, wider)
    assert [code(r) or decoded(r, wider) for r in found] == [
        {"a": 1, "b": None},
        {"a": 2, "b": "x"},
        "UNKNOWN_SCHEMA_ID",
        "EMPTY_PAYLOAD",
    ]
    assert [r.schema_id for r in found] == [1, 2, 9, 1]
    widen(plan, missing, client)
    assert sorted(registry.asked) == [f"/schemas/ids/{i}" for i in (1, 2, 9, 9)]


def test_the_most_frequent_ids_are_asked_for_when_a_batch_brings_more_than_a_bound(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "MOST_IDS", 2)
    plan = plan_of(spark, tmp_path, "a INT", supported_formats=["AVRO"], avro={"framing": "confluent"})
    junk = [framed(n, b"\x02") for n in range(100, 150)]
    batch = envelopes(spark, [*junk, framed(70, b"\x02"), framed(70, b"\x04"), framed(3, b"\x02")])
    assert unknown_ids(batch, plan) == {70, 3}


def test_an_outage_is_retriable_when_the_registry_does_not_answer(registry: Registry) -> None:
    client = SchemaRegistry(registry.url, timeout=2)
    registry.status = 503
    with pytest.raises(RetriableError):
        client.schema(1)
    registry.status = 401
    with pytest.raises(NonRetriableError):
        client.schema(1)
    registry.status = None
    assert client.schema(1) == V1
    with pytest.raises(RetriableError):
        SchemaRegistry("http://127.0.0.1:9", timeout=1).schema(1)


def version(subject: str, number: int, schema: Any, *references: tuple[str, int]) -> dict[str, Any]:
    """What the registry answers for a version of a subject, or for an id."""
    named = [{"name": s, "subject": s, "version": v} for s, v in references]
    return {"subject": subject, "version": number, "schema": json.dumps(schema), "references": named}


MONEY = {"type": "record", "name": "Money", "namespace": "acme.types", "fields": [
    {"name": "amount", "type": "long"}, {"name": "currency", "type": "Currency"},
]}  # fmt: skip
CURRENCY = {"type": "enum", "name": "acme.types.Currency", "symbols": ["EUR", "USD"]}
ORDER = {"type": "record", "name": "Order", "namespace": "acme", "fields": [
    {"name": "a", "type": "int"},
    {"name": "price", "type": ["null", "acme.types.Money"]},
    {"name": "fee", "type": "acme.types.Money"},
    {"name": "paid_in", "type": "acme.types.Currency"},
]}  # fmt: skip
RECURSIVE = record({"name": "a", "type": ["null", "R"]})


def test_a_schema_is_read_with_its_references_and_other_kinds_reject_their_records(
    spark: SparkSession, tmp_path: Path, registry: Registry
) -> None:
    registry.answers = {
        "/schemas/ids/5": version("orders", 1, ORDER, ("money/1", 2), ("currency", 1)),
        "/subjects/money%2F1/versions/2": version("money/1", 2, MONEY, ("currency", 1)),
        "/subjects/currency/versions/1": version("currency", 1, CURRENCY),
        "/schemas/ids/6": {"schema": "syntax = \"proto3\";", "schemaType": "PROTOBUF"},
        "/schemas/ids/7": {"schema": "{}", "schemaType": "JSON"},
        "/schemas/ids/8": {"schema": json.dumps(RECURSIVE)},
        "/schemas/ids/10": version("x", 1, record({"name": "a", "type": "Gone"}), ("gone", 3)),
        "/schemas/ids/11": version("x", 1, V1, *[(f"s{n}", 1) for n in range(101)]),
        **{f"/subjects/s{n}/versions/1": version(f"s{n}", 1, CURRENCY) for n in range(101)},
        "/schemas/ids/12": version("x", 1, V1, ("d0", 1)),
        **{f"/subjects/d{n}/versions/1": version(f"d{n}", 1, CURRENCY, (f"d{n + 1}", 1)) for n in range(12)},
        "/schemas/ids/13": {"schema": json.dumps({"type": "record", "name": "R", "fields": [{"name": "a"}]})},
    }  # fmt: skip
    avro = {"framing": "confluent", "registry": registry.url}
    money = "STRUCT<amount: BIGINT, currency: STRING>"
    plan = plan_of(
        spark,
        tmp_path,
        f"a INT, price {money}, fee {money}, paid_in STRING",
        supported_formats=["AVRO"],
        avro=avro,
    )
    payloads: list[bytes | None] = [framed(5, b"\x02" + b"\x02\x0a\x00" + b"\x06\x02" + b"\x02")]
    payloads += [framed(number, b"\x02") for number in (6, 7, 8, 9, 10, 11, 12, 13)]
    client = SchemaRegistry.of(AvroOptions.model_validate(avro))
    found = outcomes(spark, payloads, with_registered(envelopes(spark, payloads), plan, client))
    assert decoded(found[0], plan) == {
        "a": 1,
        "price": {"amount": 5, "currency": "EUR"},
        "fee": {"amount": 3, "currency": "USD"},
        "paid_in": "USD",
    }
    assert registry.asked.count("/subjects/currency/versions/1") == 1
    assert [code(r) for r in found[1:]] == [
        *["UNSUPPORTED_FORMAT"] * 3, "UNKNOWN_SCHEMA_ID", *["UNSUPPORTED_FORMAT"] * 4,
    ]  # fmt: skip
    summary_of_error = [r.failure and r.failure.message for r in found]
    for at, why in (
        (1, "id 6: a schema of type PROTOBUF"),
        (2, "id 7: a schema of type JSON"),
        (3, "id 8: type R contains itself"),
        (5, "id 10: refers to version 3 of gone, which is not registered"),
        (6, "id 11: refers to more than 100 schemas"),
        (7, "id 12: refers to more than 100 schemas, or over more than 10"),
        (8, "id 13: not an Avro schema"),
    ):
        assert why in summary_of_error[at], (at, summary_of_error[at])


def test_the_registry_is_asked_when_single_payloads_are_explained(
    spark: SparkSession, tmp_path: Path, registry: Registry
) -> None:
    avro = {"framing": "confluent", "registry": registry.url}
    plan = plan_of(spark, tmp_path, "a INT, b STRING", supported_formats=["AVRO"], avro=avro)
    client = SchemaRegistry.of(AvroOptions.model_validate(avro))
    (known, unknown) = explain(spark, [framed(2, b"\x04\x02x"), framed(9, b"\x02")], plan, registry=client)
    assert known.row is not None
    assert (known.row["a"], known.row["b"], unknown.code) == (2, "x", "UNKNOWN_SCHEMA_ID")
