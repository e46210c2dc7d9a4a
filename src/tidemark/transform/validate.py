"""Rules and the COB date: each a Column that is NULL or a fault; a record passes if none is a fault."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.config.decoding import Cob, Rule
from tidemark.contract import records
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.scalar import FIRST_DAY, LAST_DAY
from tidemark.transform.fields import Field

COB_RULE = "cob-not-in-future"
VIOLATION = "STRUCT<code: STRING, rule: STRING, message: STRING>"
VIOLATIONS = f"ARRAY<{VIOLATION}>"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_FAR = r"^(?:[+-][0-9]{4,}|[0-9]{5,})-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,Zz+-]*)?\z"
_LISTED = 5
"""Violations that a failure's message lists."""


def violation(code: Code, rule: str, message: str) -> Column:
    return F.struct(
        F.lit(code.value).alias("code"), F.lit(rule).alias("rule"), F.lit(message).alias("message")
    )


def violations_failure(violations: Column, format_: Column) -> Column:
    """`FAILURE_DDL` of a record that broke rules; its code is the first of them in the enum's order."""
    messages = F.transform(violations, lambda v: v["message"])
    more = F.size(messages) - _LISTED
    listed = F.array_join(F.slice(messages, 1, _LISTED), "; ")
    rest = F.when(more > 0, F.concat(F.lit("; and "), more.cast("string"), F.lit(" more"))).otherwise("")
    codes = F.transform(violations, lambda v: v["code"])
    first = F.coalesce(*[F.when(F.array_contains(codes, c.value), F.lit(c.value)) for c in Code])
    nothing = F.lit(None).cast("string")
    faults = F.transform(
        violations,
        lambda v: F.struct(
            nothing.alias("field"),
            nothing.alias("expected"),
            nothing.alias("found"),
            v["rule"].alias("rule"),
            v["message"].alias("message"),
        ),
    )
    return F.struct(
        first.alias("code"),
        F.lit("validate").alias("stage"),
        F.concat(listed, rest).alias("message"),
        format_.alias("format"),
        faults.alias("faults"),
    ).cast(records.FAILURE_DDL)


def raised(expression: Column) -> Column:
    """True where evaluating the expression raises, whatever raises in it; it never fails the batch.

    `try_to_binary` turns every error below it into NULL, and is the one function of Spark that does so
    for an arbitrary argument.
    """
    text = F.coalesce(expression.cast("string"), F.lit(""))
    return F.try_to_binary(text, F.lit("utf-8")).isNull()


def outcome_of(expression: str, *, null_is: bool) -> Column:
    """`true` or `false` as bytes, or NULL where it raises: that fails the record, never the batch.

    Taken as text through `try_to_binary`, so that it is evaluated once.
    """
    text = F.coalesce(F.expr(expression).cast("string"), F.lit(str(null_is).lower()))
    return F.try_to_binary(text, F.lit("utf-8"))


def checked_rule(rule: Rule) -> Column:
    """NULL where the rule is true or null, else its violation."""
    outcome = outcome_of(rule.expr, null_is=True)
    broken = violation(Code.RULE_VIOLATED, rule.name, rule.message or f"not true: {rule.expr}")
    failed = violation(Code.TRANSFORM_FAILED, rule.name, f"raised on this record: {rule.expr}")
    return F.when(outcome.isNull(), failed).when(outcome == F.lit(b"false"), broken)


def checked_enrichment(name: str, expression: str) -> Column:
    failed = violation(Code.TRANSFORM_FAILED, f"enrich.{name}", f"raised on this record: {expression}")
    return F.when(raised(F.expr(expression)), failed)


def cob_date(source: Field, cob: Cob) -> Column:
    """The COB date of a DATE, TIMESTAMP or STRING field; NULL where there is none or the text is no date."""
    value = F.col(f"`{source.column}`")
    kind = source.shape.data_type
    if isinstance(kind, T.DateType):
        return value
    if isinstance(kind, T.TimestampType):
        return day_of(value, cob.timezone)
    return _day_of_text(value)


def cob_unparsable(source: Field, cob: Cob) -> Column:
    """NULL, or the fault of COB text that is no date."""
    text = F.col(f"`{source.column}`")
    if not isinstance(source.shape.data_type, T.StringType):
        return F.lit(None).cast(VIOLATION)
    day = text.rlike(_DAY) & text.try_cast("date").isNotNull()
    far = text.rlike(_FAR) | (day & _day_of_text(text).isNull())
    code = F.when(far, F.lit(Code.TIMESTAMP_OUT_OF_RANGE.value)).otherwise(Code.TIMESTAMP_UNPARSABLE.value)
    wrong = F.struct(
        code.alias("code"),
        F.lit(None).cast("string").alias("rule"),
        F.lit(f"field {source.name}: expected a COB date, yyyy-mm-dd").alias("message"),
    )
    return F.when(text.isNotNull() & _day_of_text(text).isNull(), wrong)


def _day_of_text(text: Column) -> Column:
    """The DATE of a text such as 2024-07-01, of the years 0001 to 9999; NULL of any other."""
    day = F.when(text.rlike(_DAY), text.try_cast("date"))
    return F.when(F.unix_date(day).between(FIRST_DAY, LAST_DAY), day)


def cob_in_future(cob: Cob) -> Column:
    """NULL, or the fault of a COB date after the day of the record's own timestamp.

    Measured against the time the producer gave, so that a second run decides the same; the broker's
    append time is not the record's. Not checked where the record has no timestamp.
    """
    late = violation(
        Code.RULE_VIOLATED, COB_RULE, f"{cob.column} lies after the day of the record's timestamp"
    )
    today = F.when(
        F.col(records.TIMESTAMP_TYPE) == "create_time", day_of(F.col(records.TIMESTAMP), cob.timezone)
    )
    return F.when(F.col(f"`{cob.column}`") > today, late)


def day_of(timestamp: Column, timezone: str) -> Column:
    """The date of an instant in a zone, whatever the session's."""
    local = F.unix_seconds(F.from_utc_timestamp(timestamp, timezone))
    return F.date_from_unix_date(F.floor(local / F.lit(86_400)).cast("int"))
