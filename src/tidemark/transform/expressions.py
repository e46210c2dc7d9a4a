"""What a rule or an enrichment may say: deterministic SQL over the columns of one record.

A record that is decoded again, after a crash or from the dead letters, must come out the same. So an
expression that looks at a clock, a random source, the session or another row is a fault of the
configuration. Its text is looked at (`unstable`), and where there is a session what Spark makes of it too
(`unstable_as_analysed`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

_UNSTABLE = frozenset(
    {
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("now", "current_timestamp", "current_date", "current_time", "curdate", "localtimestamp"),
        *("current_user", "user", "session_user", "current_timezone", "current_catalog", "current_database"),
        *("current_schema", "current_metastore", "current_recipient", "current_path", "is_member"),
        *("is_account_group_member", "input_file_name", "input_file_block_start", "input_file_block_length"),
        *("spark_partition_id", "version", "reflect", "java_method", "try_reflect", "secret", "try_secret"),
        *("sample", "ai_query", "http_request", "read_files", "event_log"),
    }
)
_BARE = frozenset(
    {
        *("current_timestamp", "current_date", "current_time", "current_user", "user", "session_user"),
        *("localtimestamp", "current_catalog", "current_database", "current_schema", "current_path"),
    }
)
"""SQL takes these without parentheses too, unless a column has the name."""
_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|[A-Za-z_]\w*|--[^\n]*|/\*(?s:.*?)\*/|\S"
)
_ANALYSED = re.compile(r"^== Analyzed Logical Plan ==\n[^\n]*\n(.*?)^== Optimized", re.MULTILINE | re.DOTALL)
_SUBQUERY = re.compile(r"^\s*: +[+:]- ", re.MULTILINE)
_SPECIAL = frozenset({"now", "today", "tomorrow", "yesterday"})


def unstable(expression: str, columns: frozenset[str]) -> list[str]:
    """What in the expression is not a function of the record alone, in words."""
    tokens = [t for t in _TOKEN.findall(expression) if not t.startswith(("--", "/*"))]
    found: list[str] = []
    for at, token in enumerate(tokens):
        word, after = token.lower().strip("`"), tokens[at + 1] if at + 1 < len(tokens) else ""
        called = after == "("
        if called and (word in _UNSTABLE or (word == "unix_timestamp" and tokens[at + 2 : at + 3] == [")"])):
            found.append(f"{word}() is not deterministic")
        elif called and word == "identifier":
            found.append("IDENTIFIER() hides what is called")
        elif not called and word in _BARE and word not in columns and not token.startswith("`"):
            found.append(f"{word} is not deterministic")
        elif word in ("select", "over") and not token.startswith("`") and word not in columns:
            found.append(f"{word.upper()} looks at other rows")
        elif token[0] in "'\"" and token[1:-1].strip().lower() in _SPECIAL and _is_moment(tokens, at):
            found.append(f"{token} is a moment of the clock")
    return found


def _is_moment(tokens: list[str], at: int) -> bool:
    """Whether a text such as 'now' is read as a date or timestamp."""
    before = tokens[at - 1].lower() if at else ""
    rest = [t.lower() for t in tokens[at + 1 :]]
    cast = (
        before == "(" and rest[:1] == ["as"] and any(r.startswith(("date", "timestamp")) for r in rest[1:2])
    )
    double_colon = rest[:2] == [":", ":"] and any(r.startswith(("date", "timestamp")) for r in rest[2:3])
    called = (
        before == "("
        and at > 1
        and tokens[at - 2].lower() in ("date", "timestamp", "to_date", "to_timestamp")
    )
    return before in ("date", "timestamp", "timestamp_ltz", "timestamp_ntz") or cast or double_colon or called


def unstable_as_analysed(expressions: Mapping[str, str], empty: DataFrame) -> dict[str, str]:
    """Of the expressions that are not a function of the record alone as Spark analyses them, why, by their key.

    In: expressions that have a type over the columns of `empty`, a frame without rows. Two questions to Spark
    for all of them where nothing is wrong.
    """
    if _why_unstable(expressions.values(), empty) is None:
        return {}
    found = {key: _why_unstable([expression], empty) for key, expression in expressions.items()}
    return {key: why for key, why in found.items() if why is not None}


def _why_unstable(expressions: Iterable[str], empty: DataFrame) -> str | None:
    try:
        # An aggregate takes deterministic arguments alone. What a clock or the session says counts as such.
        _ = empty.selectExpr(*[f"count({each}\n)" for each in expressions]).schema
    except PySparkException as error:
        return (
            "is not deterministic" if "NONDETERMINISTIC" in str(error.getCondition()) else first_line(error)
        )
    plan, literals = _analysed(expressions, empty), " ".join(_literals(expressions))
    for name in sorted(_UNSTABLE):
        call = re.compile(rf"\b{name}\(", re.IGNORECASE)
        # A plan shows texts without their quotes.
        if len(call.findall(plan)) > len(call.findall(literals)):
            return f"{name}() is not deterministic"
    return "looks at other rows" if _SUBQUERY.search(plan) else None


def _analysed(expressions: Iterable[str], empty: DataFrame) -> str:
    """The analysed plan as Spark writes it; empty where it cannot plan them, as `1 / 0`."""
    spark, view = empty.sparkSession, f"_tidemark_{uuid.uuid4().hex}"
    empty.createOrReplaceTempView(view)
    try:
        # Without names of our own, Spark makes them of the expressions, whose texts would be there twice.
        listed = ", ".join(f"({each}\n) AS c{number}" for number, each in enumerate(expressions))
        row = spark.sql(f"EXPLAIN EXTENDED SELECT {listed} FROM {view}").first()
    finally:
        spark.catalog.dropTempView(view)
    found = _ANALYSED.search(row[0]) if row is not None else None
    return found[1] if found else ""


def _literals(expressions: Iterable[str]) -> list[str]:
    return [token for each in expressions for token in _TOKEN.findall(each) if token[0] in "'\""]


def type_of(expression: str, empty: DataFrame) -> tuple[T.DataType | None, str | None]:
    """The expression's type over the columns of an empty frame, or why it has none.

    Analysed inside a WHERE, where Spark takes neither aggregates nor windows nor generators.
    """
    try:
        _ = empty.where(f"({expression}\n) IS NULL").schema
        return empty.selectExpr(f"({expression}\n) AS value").schema["value"].dataType, None
    except PySparkException as error:
        return None, first_line(error)


def first_line(error: PySparkException) -> str:
    text = str(error).strip().splitlines()
    return re.sub(r"\s*SQLSTATE: \w+", "", text[0]) if text else type(error).__name__
