"""Records of a DLQ topic as dead letters, whoever wrote them. Pure Columns.

Ours are told by their headers (`__dlq.errors.…`), or by the version 1.0 envelope of
`reliability-guarantees.md`. Spring Kafka's (`kafka_dlt-…`, numbers big-endian) and Kafka Connect's
(`__connect.errors.…`, text) header families are read too. Anything else is kept under its own coordinates.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract import records
from tidemark.contract.dead_letters import (
    BASE64_PREFIX,
    ERRORS_PREFIX,
    LETTER_DDL,
    LETTER_ID,
    REPLAY_COUNT,
    UNKNOWN_CODE,
)

_SPRING = "kafka_dlt-"
_CONNECT = "__connect.errors."
_ENVELOPE_DDL = (
    "original_topic STRING, original_partition STRING, original_offset BIGINT, original_key STRING, "
    "original_value STRING, original_timestamp STRING, error_reason STRING, error_message STRING, "
    "error_class STRING, dlq_version STRING"
)


def letters_of(dlq_records: DataFrame) -> DataFrame:
    """In: `ENVELOPE_COLUMNS` of records of a DLQ topic. Out: `LETTER_DDL`, in that order. Never raises for
    what a record holds.
    """
    body = F.from_json(F.col(records.PAYLOAD).cast("string"), _ENVELOPE_DDL)
    told = dlq_records.select("*", body.alias("_body")).select("*", _family().alias("_family"))
    fields = {**_of_the_dlq(), **_envelope_of(told), **_failure()}
    missing_partition = fields[records.PARTITION].isNull() | fields[records.OFFSET].isNull()
    own = F.when(missing_partition, F.lit(True)).otherwise(F.lit(False))
    located = {
        records.TOPIC: F.when(own, F.col(records.TOPIC)).otherwise(fields[records.TOPIC]),
        records.TOPIC_ID: F.when(own, F.col(records.TOPIC_ID)).otherwise(fields[records.TOPIC_ID]),
        records.PARTITION: F.when(own, F.col(records.PARTITION)).otherwise(fields[records.PARTITION]),
        records.OFFSET: F.when(own, F.col(records.OFFSET)).otherwise(fields[records.OFFSET]),
    }
    fields |= located
    topic = F.coalesce(located[records.TOPIC_ID], located[records.TOPIC])
    fields[LETTER_ID] = F.concat_ws(":", topic, located[records.PARTITION], located[records.OFFSET])
    wanted = T.StructType.fromDDL(LETTER_DDL)
    assert isinstance(wanted, T.StructType)
    return told.select(*[fields[f.name].cast(f.dataType).alias(f.name) for f in wanted.fields])


def header(name: str) -> Column:
    """The last value of a header, as bytes: headers are a multimap, and who adds one adds it at the end."""
    headers = F.coalesce(F.col(records.HEADERS), F.array().cast(records.HEADERS_DDL))
    found = F.filter(headers, lambda h: h["name"] == name)
    return F.try_element_at(found, F.lit(-1))["value"]


def _text(name: str) -> Column:
    return header(name).cast("string")


def _ours(name: str) -> Column:
    return _text(f"{ERRORS_PREFIX}{name}")


def _big_endian(name: str) -> Column:
    return F.conv(F.hex(header(name)), 16, 10).try_cast("bigint")


def _family() -> Column:
    enveloped = F.col("_body.dlq_version").isNotNull() & F.col("_body.original_topic").isNotNull()
    return (
        F.when(enveloped, F.lit("envelope"))
        .when(header(f"{ERRORS_PREFIX}offset").isNotNull(), F.lit("headers"))
        .when(header(f"{_SPRING}original-offset").isNotNull(), F.lit("spring"))
        .when(header(f"{_CONNECT}topic").isNotNull(), F.lit("connect"))
        .otherwise(F.lit("unknown"))
    )


def _by_family(
    *, headers: Column, envelope: Column | None = None, spring: Column, connect: Column, unknown: Column
) -> Column:
    family = F.col("_family")
    ours = headers if envelope is None else F.coalesce(envelope, headers)
    return (
        F.when(family == "headers", headers)
        .when(family == "envelope", ours)
        .when(family == "spring", spring)
        .when(family == "connect", connect)
        .otherwise(unknown)
    )


def _envelope_of(told: DataFrame) -> dict[str, Column]:
    """The record as its stream read it."""
    nothing, enveloped = F.lit(None), F.col("_family") == "envelope"
    timestamp = F.coalesce(_ours("timestamp").try_cast("bigint"), F.lit(None).cast("bigint"))
    return {
        records.TOPIC: _by_family(
            headers=_ours("topic"),
            envelope=F.col("_body.original_topic"),
            spring=_text(f"{_SPRING}original-topic"),
            connect=_text(f"{_CONNECT}topic"),
            unknown=nothing,
        ),
        records.TOPIC_ID: _ours("topic.id"),
        records.PARTITION: _by_family(
            headers=_ours("partition").try_cast("int"),
            envelope=F.col("_body.original_partition").try_cast("int"),
            spring=_big_endian(f"{_SPRING}original-partition").cast("int"),
            connect=_text(f"{_CONNECT}partition").try_cast("int"),
            unknown=nothing.cast("int"),
        ),
        records.OFFSET: _by_family(
            headers=_ours("offset").try_cast("bigint"),
            envelope=F.col("_body.original_offset"),
            spring=_big_endian(f"{_SPRING}original-offset"),
            connect=_text(f"{_CONNECT}offset").try_cast("bigint"),
            unknown=nothing.cast("bigint"),
        ),
        records.TIMESTAMP: _by_family(
            headers=F.timestamp_millis(timestamp),
            envelope=F.coalesce(
                F.timestamp_millis(timestamp), F.col("_body.original_timestamp").try_cast("timestamp")
            ),
            spring=F.timestamp_millis(_big_endian(f"{_SPRING}original-timestamp")),
            connect=F.col(records.TIMESTAMP),
            unknown=F.col(records.TIMESTAMP),
        ),
        records.TIMESTAMP_TYPE: F.coalesce(
            _ours("timestamp.type"), _text(f"{_SPRING}original-timestamp-type"), F.lit("create_time")
        ),
        records.KEY: F.when(enveloped, _bytes(F.col("_body.original_key"))).otherwise(F.col(records.KEY)),
        records.PAYLOAD: F.when(enveloped, _bytes(F.col("_body.original_value"))).otherwise(
            F.col(records.PAYLOAD)
        ),
        records.HEADERS: F.filter(
            F.coalesce(F.col(records.HEADERS), F.array().cast(records.HEADERS_DDL)),
            lambda h: ~_is_error_header(h["name"]),
        ),
    }


def _is_error_header(name: Column) -> Column:
    family = F.col("_family")
    return (
        (family.isin("headers", "envelope") & name.startswith(ERRORS_PREFIX))
        | ((family == "spring") & name.startswith(_SPRING))
        | ((family == "connect") & name.startswith(_CONNECT))
    )


def _failure() -> dict[str, Column]:
    unknown = F.lit(UNKNOWN_CODE)
    return {
        "stream": _ours("stream"),
        "consumer_group": F.coalesce(_ours("group"), _text(f"{_SPRING}original-consumer-group")),
        "failure_code": _by_family(
            headers=F.coalesce(_ours("category"), unknown),
            envelope=F.col("_body.error_reason"),
            spring=unknown,
            connect=unknown,
            unknown=unknown,
        ),
        "failure_stage": F.coalesce(_ours("stage"), _text(f"{_CONNECT}stage")),
        "failure_message": _by_family(
            headers=_ours("message"),
            envelope=F.col("_body.error_message"),
            spring=_text(f"{_SPRING}exception-message"),
            connect=_text(f"{_CONNECT}exception.message"),
            unknown=F.lit(None),
        ),
        "failure_class": _by_family(
            headers=_ours("exception.class.name"),
            envelope=F.col("_body.error_class"),
            spring=_text(f"{_SPRING}exception-fqcn"),
            connect=_text(f"{_CONNECT}exception.class.name"),
            unknown=F.lit(None),
        ),
        "payload_format": _ours("format"),
        "payload_omitted": _ours("value.omitted").try_cast("bigint"),
        "retriable": F.coalesce(_ours("retriable") == "true", F.lit(False)),
        "replay_count": F.coalesce(_text(REPLAY_COUNT).try_cast("int"), F.lit(0)),
        "written_as": F.col("_family"),
    }


def _of_the_dlq() -> dict[str, Column]:
    return {
        "failed_at": F.col(records.TIMESTAMP),
        "dlq_topic": F.col(records.TOPIC),
        "dlq_partition": F.col(records.PARTITION),
        "dlq_offset": F.col(records.OFFSET),
    }


def _bytes(text: Column) -> Column:
    encoded = F.substr(text, F.lit(len(BASE64_PREFIX) + 1))
    return F.when(text.startswith(BASE64_PREFIX), F.try_to_binary(encoded, F.lit("base64"))).otherwise(
        F.encode(text, "UTF-8")
    )
