"""Schema ids over a registry's HTTP API: a batch widens its plan, an outage is not the record's fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.schema_registry import V1, Registry, framed
from tests.transform.samples import code, decoded, envelopes, outcomes, plan_of

from tidemark.config.decoding import AvroOptions
from tidemark.contract.errors import NonRetriableError, RetriableError
from tidemark.transform import SchemaRegistry, unknown_ids, widen


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
