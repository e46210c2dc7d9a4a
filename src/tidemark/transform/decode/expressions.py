"""Building blocks of Column expressions: bind once, try, faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.contract.failure_codes import FailureCode

FAULT = "STRUCT<code: STRING, field: STRING, expected: STRING, found: STRING>"
FOUND_LENGTH = 120
"""Characters of a found value that a dead letter shows."""


def bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body(value)` with `value` evaluated once.

    A lambda, so that it is interpreted: the rarely used diagnosis stays out of the generated code,
    which would otherwise grow past what the JVM compiles, and is evaluated only where it is reached.
    """
    # The finish of a fold over nothing: fewer levels than an array's transform, of which a Connect
    # client's messages take a hundred.
    return F.aggregate(F.array().cast("array<int>"), value, lambda bound, _: bound, body)


def folded(operation: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    """The parts joined in halves, not in a chain: a thousand would nest too deep. At least one."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return operation(folded(operation, parts[:middle]), folded(operation, parts[middle:]))


def compiled_apart(condition: Column) -> Column:
    """The condition itself, in a form that keeps its whole `select` out of whole-stage code generation.

    It is interpreted itself, so give it a cheap one. A stage's generated method that outgrows 8,000
    bytes is never compiled by the JVM and runs several times slower; a `select` on its own is generated
    in small methods. Measured: half the time for ten columns.
    """
    return F.exists(F.array(condition), lambda value: value)


def raised(expression: Column) -> Column:
    """True where evaluating the expression raises, whatever raises in it; it never fails the batch.

    `try_to_binary` turns every error below it into NULL, and is the one function of Spark that does so
    for an arbitrary argument.
    """
    text = F.coalesce(expression.cast("string"), F.lit(""))
    return F.try_to_binary(text, F.lit("utf-8")).isNull()


def quoted(name: str) -> str:
    """A name as one identifier in an expression or in DDL."""
    return "`" + name.replace("`", "``") + "`"


def get(struct: Column, name: str) -> Column:
    """A struct's field by its exact name, dots and all."""
    return struct.getField(name)


def fault(code: Column | FailureCode, *, field: Column, expected: str, found: Column | None) -> Column:
    shown = F.lit(None).cast("string") if found is None else cut(found)
    return F.struct(
        (F.lit(code.value) if isinstance(code, FailureCode) else code).alias("code"),
        field.alias("field"),
        F.lit(expected).alias("expected"),
        shown.alias("found"),
    )


def cut(text: Column) -> Column:
    return F.when(
        F.length(text) > FOUND_LENGTH, F.concat(F.substring(text, 1, FOUND_LENGTH), F.lit("…"))
    ).otherwise(text)


def no_faults() -> Column:
    return F.array().cast(f"ARRAY<{FAULT}>")


def null(data_type: T.DataType | str) -> Column:
    return F.lit(None).cast(data_type)
