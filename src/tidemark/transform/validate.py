"""Rules and the COB date: each a Column that is NULL or a fault; a record passes if none is a fault."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.config.decoding import Cob, Rule
from tidemark.contract import records
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.outcome import KEPT_FAULTS, LISTED_FAULTS
from tidemark.transform.decode.scalar import FIRST_DAY, LAST_DAY
from tidemark.transform.fields import Field

COB_RULE = "cob-not-in-future"
FAULT = "STRUCT<code: STRING, field: STRING, expected: STRING, found: STRING, rule: STRING, message: STRING>"
FAULTS = f"ARRAY<{FAULT}>"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_FAR = r"^(?:[+-][0-9]{4,}|[0-9]{5,})-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,Zz+-]*)?\z"


def fault(
    code: Code,
    message: Column | str,
    *,
    field: str | None = None,
    expected: str | None = None,
    found: Column | None = None,
    rule: str | None = None,
) -> Column:
    """A `FAULT`."""
    return F.struct(
        F.lit(code.value).alias("code"),
        F.lit(field).cast("string").alias("field"),
        F.lit(expected).cast("string").alias("expected"),
        (F.lit(None) if found is None else found).cast("string").alias("found"),
        F.lit(rule).cast("string").alias("rule"),
        F.lit(message).alias("message"),
    )


def failure_of_faults(faults: Column, format_: Column) -> Column:
    """`FAILURE_DDL` of a record with these `FAULTS`; its code is the first of theirs in the enum's order."""
    messages = F.transform(faults, lambda f: f["message"])
    more = F.size(messages) - LISTED_FAULTS
    listed = F.array_join(F.slice(messages, 1, LISTED_FAULTS), "; ")
    rest = F.when(more > 0, F.concat(F.lit("; and "), more.cast("string"), F.lit(" more"))).otherwise("")
    codes = F.transform(faults, lambda f: f["code"])
    parts = ("field", "expected", "found", "rule", "message")
    return F.struct(
        F.coalesce(*[F.when(F.array_contains(codes, c.value), F.lit(c.value)) for c in Code]).alias("code"),
        F.lit("validate").alias("stage"),
        F.concat(listed, rest).alias("message"),
        format_.alias("format"),
        F.transform(
            F.slice(faults, 1, KEPT_FAULTS), lambda f: F.struct(*[f[part].alias(part) for part in parts])
        ).alias("faults"),
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
    broken = fault(Code.RULE_VIOLATED, rule.message or f"not true: {rule.expr}", rule=rule.name)
    failed = fault(Code.TRANSFORM_FAILED, f"raised on this record: {rule.expr}", rule=rule.name)
    return F.when(outcome.isNull(), failed).when(outcome == F.lit(b"false"), broken)


def checked_enrichment(name: str, expression: str) -> Column:
    failed = fault(Code.TRANSFORM_FAILED, f"raised on this record: {expression}", rule=f"enrich.{name}")
    return F.when(raised(F.expr(expression)), failed)


def cob_date(source: Field, cob: Cob) -> Column:
    """The COB date of a DATE, TIMESTAMP or STRING field; NULL where there is none or the text is not a date."""
    value = F.col(f"`{source.column}`")
    kind = source.shape.data_type
    if isinstance(kind, T.DateType):
        return value
    if isinstance(kind, T.TimestampType):
        return day_of(value, cob.timezone)
    return _day_of_text(value)


def cob_unparsable(source: Field, cob: Cob) -> Column:
    """NULL, or the fault of COB text that is not a date."""
    text = F.col(f"`{source.column}`")
    if not isinstance(source.shape.data_type, T.StringType):
        return F.lit(None).cast(FAULT)
    day = text.rlike(_DAY) & text.try_cast("date").isNotNull()
    far = text.rlike(_FAR) | (day & _day_of_text(text).isNull())
    message = f"field {source.name}: expected a COB date, yyyy-mm-dd"
    wrong = F.when(far, fault(Code.TIMESTAMP_OUT_OF_RANGE, message)).otherwise(
        fault(Code.TIMESTAMP_UNPARSABLE, message)
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
    message = f"{cob.column} lies after the day of the record's timestamp"
    late = fault(Code.RULE_VIOLATED, message, rule=COB_RULE)
    today = F.when(
        F.col(records.TIMESTAMP_TYPE) == "create_time", day_of(F.col(records.TIMESTAMP), cob.timezone)
    )
    return F.when(F.col(f"`{cob.column}`") > today, late)


def day_of(timestamp: Column, timezone: str) -> Column:
    """The date of an instant in a zone, whatever the session's."""
    local = F.unix_seconds(F.from_utc_timestamp(timestamp, timezone))
    return F.date_from_unix_date(F.floor(local / F.lit(86_400)).cast("int"))
