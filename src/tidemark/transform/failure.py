"""Why a record is a dead letter, in code and in words."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.contract import records
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.expressions import FAULT, bind
from tidemark.transform.validate import VIOLATIONS

PRECEDENCE = tuple(Code)
"""Of several faults the code is the first in this order, the enum's: what is wrong with the whole
payload, then with a value, then what is missing or too much, then rules."""


def failure_of(faults: Column, violations: Column | None) -> Column:
    """`FAILURE_DDL` of a rejected record, from its faults or its violations; a tombstone has neither."""
    tombstone = F.struct(
        F.lit(Code.EMPTY_PAYLOAD.value).alias("code"),
        F.lit(None).cast("string").alias("field"),
        F.lit("a value").alias("expected"),
        F.lit(None).cast("string").alias("found"),
    )
    decoded = bind(
        F.coalesce(faults, F.array(tombstone).cast(f"ARRAY<{FAULT}>")),
        lambda found: _failure("decode", F.transform(found, _decode_fault), found),
    )
    if violations is None:
        return decoded.cast(records.FAILURE_DDL)
    checked = bind(
        violations.cast(VIOLATIONS),
        lambda found: _failure("validate", F.transform(found, _rule_fault), found),
    )
    return F.when(violations.isNotNull(), checked).otherwise(decoded).cast(records.FAILURE_DDL)


def _failure(stage: str, faults: Column, found: Column) -> Column:
    order = F.array(*[F.lit(c.value) for c in PRECEDENCE])
    ranked = F.transform(
        found,
        lambda f: F.struct(
            F.array_position(order, f.getField("code")).alias("at"), f.getField("code").alias("code")
        ),
    )
    messages = F.array_join(F.transform(F.slice(faults, 1, 5), lambda f: f.getField("message")), "; ")
    more = F.when(
        F.size(faults) > 5, F.concat(F.lit("; and "), (F.size(faults) - 5).cast("string"), F.lit(" more"))
    ).otherwise(F.lit(""))
    return F.struct(
        F.array_min(ranked).getField("code").alias("code"),
        F.lit(stage).alias("stage"),
        F.concat(messages, more).alias("message"),
        F.col("_format").alias("format"),
        faults.alias("faults"),
    )


def _decode_fault(f: Column) -> Column:
    where = F.when(f.getField("field").isNull(), F.lit("")).otherwise(
        F.concat(F.lit("field "), f.getField("field"), F.lit(": "))
    )
    found = F.when(f.getField("found").isNull(), F.lit("")).otherwise(
        F.concat(F.lit(", found "), f.getField("found"))
    )
    message = F.concat(
        f.getField("code"), F.lit(": "), where, F.lit("expected "), f.getField("expected"), found
    )
    return F.struct(
        f.getField("field").alias("field"),
        f.getField("expected").alias("expected"),
        f.getField("found").alias("found"),
        F.lit(None).cast("string").alias("rule"),
        message.alias("message"),
    )


def _rule_fault(f: Column) -> Column:
    nothing = F.lit(None).cast("string")
    return F.struct(
        nothing.alias("field"),
        nothing.alias("expected"),
        nothing.alias("found"),
        f.getField("rule").alias("rule"),
        f.getField("message").alias("message"),
    )
