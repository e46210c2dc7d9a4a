"""Reads records of a DLQ topic as dead letters, whoever wrote them. Pure Columns.

Tidemark's own are recognised by their headers (`headers`), whatever their value looks like. Of other programs the
header families of Spring Kafka (`kafka_dlt-…`, numbers big-endian) and Kafka Connect (`__connect.errors.…`,
text) are read, and the version 1.0 envelope without headers. Any other record gets its own coordinates on the
DLQ topic.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.dead_letters import (
    BASE64_PREFIX,
    DEAD_LETTER_DDL,
    DEAD_LETTER_ID,
    ENVELOPE_VERSION,
    REPLAY_COUNT,
    UNKNOWN_CODE,
)
from tidemark.dead_letters.columns import columns_of
from tidemark.dead_letters.headers import OTHERS, other_number, other_text, ours, split_headers
from tidemark.transform.content import headers_or_empty

_SPRING = "kafka_dlt-"
_CONNECT = "__connect.errors."
_FAMILY = "_family"
_BODY = "_body"
_ENVELOPE_DDL = (
    "original_topic STRING, original_partition STRING, original_offset BIGINT, original_key STRING, "
    "original_value STRING, original_timestamp STRING, error_reason STRING, error_message STRING, "
    "error_class STRING, dlq_version STRING"
)
_TOPIC_NAME = r"\A[A-Za-z0-9._-]{1,249}\z"
_TOPIC_ID = r"\A[A-Za-z0-9+/_-]{22}={0,2}\z"
_ZONE = r"(Z|[+-]\d\d:?\d\d)\z"


def dead_letters_of(dlq_records: DataFrame, *, believed: bool = True) -> DataFrame:
    """In: `ENVELOPE_COLUMNS` of records of a DLQ topic. Out: `DEAD_LETTER_DDL`, in that order. No content of a
    record makes it raise.

    Not `believed`, a record gets its own coordinates on the DLQ topic, whatever it claims.
    """
    body = F.from_json(F.col(records.PAYLOAD).cast("string"), _ENVELOPE_DDL).alias(_BODY)
    family = _family() if believed else F.lit("unknown")
    parsed = dlq_records.select("*", body, *split_headers()).select("*", family.alias(_FAMILY))
    fields = {**_of_the_dlq(), **_coordinates(), **_record(), **_failure()}
    located = F.coalesce(
        fields[records.TOPIC].rlike(_TOPIC_NAME)
        & (fields[records.PARTITION] >= 0)
        & (fields[records.OFFSET] >= 0),
        F.lit(False),
    )
    for name in (records.TOPIC, *records.COORDINATES):
        fields[name] = F.when(located, fields[name]).otherwise(F.col(name))
    topic = F.coalesce(fields[records.TOPIC_ID], fields[records.TOPIC])
    fields[DEAD_LETTER_ID] = F.concat_ws(":", topic, fields[records.PARTITION], fields[records.OFFSET])
    return parsed.select(*columns_of(DEAD_LETTER_DDL, fields))


def _family() -> Column:
    """Who wrote the record. Tidemark's headers count in full or not at all. A value is an envelope only where they
    name that format, or, because version 0.1 did not write it, where both have the same coordinates.
    """
    written = [ours(name).isNotNull() for name in ("group", "category", "stage", "retriable")]
    complete = (
        ours("topic").rlike(_TOPIC_NAME)
        & F.coalesce(ours("topic.id").rlike(_TOPIC_ID), F.lit(True))
        & (_number("partition", "int") >= 0)
        & (_number("offset", "bigint") >= 0)
    )
    for each in written:
        complete = complete & each
    same = (
        (_body("original_topic") == ours("topic"))
        & (_body("original_partition") == ours("partition"))
        & (_body("original_offset") == _number("offset", "bigint"))
    )
    enveloped = _body("dlq_version") == ENVELOPE_VERSION
    is_envelope = F.coalesce(ours("written.as") == "envelope", same) & enveloped
    return (
        F.when(complete & is_envelope, F.lit("envelope"))
        .when(complete, F.lit("headers"))
        .when(other_text(f"{_SPRING}original-offset").isNotNull(), F.lit("spring"))
        .when(other_text(f"{_CONNECT}topic").isNotNull(), F.lit("connect"))
        .when(enveloped & _body("original_topic").isNotNull(), F.lit("bare envelope"))
        .otherwise(F.lit("unknown"))
    )


def _by_family(**found: Column) -> Column:
    """The column of the record's family, NULL for a family without one. `ours` are both of Tidemark's families,
    `body` is a bare envelope, which another program wrote.
    """
    names = {"ours": ("headers", "envelope"), "body": ("bare envelope",)}
    chosen = F.when(F.lit(False), F.lit(None))
    for family, column in found.items():
        chosen = chosen.when(F.col(_FAMILY).isin(*names.get(family, (family,))), column)
    return chosen


def _coordinates() -> dict[str, Column]:
    return {
        records.TOPIC: _by_family(
            ours=ours("topic"),
            body=_body("original_topic"),
            spring=other_text(f"{_SPRING}original-topic"),
            connect=other_text(f"{_CONNECT}topic"),
        ),
        records.TOPIC_ID: _by_family(ours=ours("topic.id")),
        records.PARTITION: _by_family(
            ours=_number("partition", "int"),
            body=_body("original_partition").try_cast("int"),
            spring=other_number(f"{_SPRING}original-partition").try_cast("int"),
            connect=other_text(f"{_CONNECT}partition").try_cast("int"),
        ),
        records.OFFSET: _by_family(
            ours=_number("offset", "bigint"),
            body=_body("original_offset"),
            spring=other_number(f"{_SPRING}original-offset"),
            connect=other_text(f"{_CONNECT}offset").try_cast("bigint"),
        ),
    }


def _record() -> dict[str, Column]:
    """The source record as its stream read it."""
    written = _body("original_timestamp")
    in_utc = F.when(written.rlike(_ZONE), written).otherwise(F.concat(written, F.lit("Z")))
    moment = in_utc.try_cast("timestamp")
    inside = F.col(_FAMILY).isin("envelope", "bare envelope")
    family = F.col(_FAMILY)
    return {
        records.TIMESTAMP: _by_family(
            ours=_moment(_number("timestamp", "bigint")),
            body=F.when(moment >= F.timestamp_seconds(F.lit(0)), moment),
            spring=_moment(other_number(f"{_SPRING}original-timestamp")),
            connect=F.col(records.TIMESTAMP),
            unknown=F.col(records.TIMESTAMP),
        ),
        records.TIMESTAMP_TYPE: F.coalesce(
            _by_family(ours=ours("timestamp.type"), spring=other_text(f"{_SPRING}original-timestamp-type")),
            F.lit("create_time"),
        ),
        records.KEY: F.when(family == "bare envelope", _bytes(_body("original_key"))).otherwise(
            F.col(records.KEY)
        ),
        records.PAYLOAD: F.when(inside, _bytes(_body("original_value"))).otherwise(F.col(records.PAYLOAD)),
        records.HEADERS: F.when(family.isin("headers", "envelope"), F.col(OTHERS)).otherwise(
            F.filter(
                headers_or_empty(),
                lambda h: (
                    ~(
                        ((family == "spring") & h["name"].startswith(_SPRING))
                        | ((family == "connect") & h["name"].startswith(_CONNECT))
                    )
                ),
            )
        ),
    }


def _failure() -> dict[str, Column]:
    omitted = _number("value.omitted", "bigint")
    pointed_at = F.when(ours("value.pointer").isNotNull(), F.lit(0))
    return {
        "stream": _by_family(ours=ours("stream")),
        "consumer_group": _by_family(
            ours=ours("group"), spring=other_text(f"{_SPRING}original-consumer-group")
        ),
        "failure_code": F.coalesce(
            _by_family(ours=ours("category"), body=_body("error_reason")), F.lit(UNKNOWN_CODE)
        ),
        "failure_stage": _by_family(ours=ours("stage"), connect=other_text(f"{_CONNECT}stage")),
        "failure_message": _by_family(
            ours=ours("message"),
            body=_body("error_message"),
            spring=other_text(f"{_SPRING}exception-message"),
            connect=other_text(f"{_CONNECT}exception.message"),
        ),
        "failure_class": _by_family(
            envelope=_body("error_class"),
            ours=ours("exception.class.name"),
            body=_body("error_class"),
            spring=other_text(f"{_SPRING}exception-fqcn"),
            connect=other_text(f"{_CONNECT}exception.class.name"),
        ),
        "payload_format": _by_family(ours=ours("format")),
        "payload_omitted": _by_family(ours=F.coalesce(omitted, pointed_at)),
        "retriable": F.coalesce(_by_family(ours=ours("retriable") == "true"), F.lit(False)),
        "replay_count": F.greatest(F.coalesce(other_text(REPLAY_COUNT).try_cast("int"), F.lit(0)), F.lit(0)),
        "written_as": F.when(F.col(_FAMILY) == "bare envelope", F.lit("envelope")).otherwise(F.col(_FAMILY)),
    }


def _of_the_dlq() -> dict[str, Column]:
    return {
        "failed_at": F.col(records.TIMESTAMP),
        "dlq_topic": F.col(records.TOPIC),
        "dlq_partition": F.col(records.PARTITION),
        "dlq_offset": F.col(records.OFFSET),
    }


def _body(name: str) -> Column:
    return F.col(f"{_BODY}.{name}")


def _number(name: str, kind: str) -> Column:
    return ours(name).try_cast(kind)


def _moment(milliseconds: Column) -> Column:
    return F.timestamp_millis(F.when(milliseconds.between(0, records.LAST_MILLIS), milliseconds))


def _bytes(text: Column) -> Column:
    """The bytes that a text of the envelope encodes; one that only looks like base64 encodes itself."""
    encoded = F.substr(text, F.lit(len(BASE64_PREFIX) + 1))
    decoded = F.when(text.startswith(BASE64_PREFIX), F.try_to_binary(encoded, F.lit("base64")))
    return F.coalesce(decoded, text.cast("binary"))
