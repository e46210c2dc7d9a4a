"""One CSV record per payload, by RFC 4180: quotes doubled, or an escape character where one is declared.

Spark's own reader escapes with a backslash, cuts surplus fields, drops lines of delimiters and turns a
quoted empty field into NULL. Here the line's grammar is one regular expression, its fields another.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.config.decoding import CsvDialect
from tidemark.contract.failure_codes import FailureCode as Code
from tidemark.transform.decode.expressions import bind, fault, no_faults, null
from tidemark.transform.decode.json_strict import no_tokens, record, rejected
from tidemark.transform.decode.json_tree import parsed
from tidemark.transform.decode.scalar import from_text
from tidemark.transform.fields import Field

_SPECIAL = re.compile(r"([\\^$.|?*+()\[\]{}&~#\- ])")


class _Grammar:
    """The dialect's regular expressions (Java's)."""

    def __init__(self, dialect: CsvDialect) -> None:
        self.quote, self.escape = dialect.quote, dialect.escape
        d, q = literal(dialect.delimiter), literal(dialect.quote)
        if dialect.escape and dialect.escape != dialect.quote:
            e = literal(dialect.escape)
            quoted = f"{q}(?:[^{literal(dialect.quote)}{literal(dialect.escape)}]++|{e}.)*+{q}"
        else:
            quoted = f"{q}(?:[^{literal(dialect.quote)}]++|{q}{q})*+{q}"
        bare = f"[^{literal(dialect.quote)}{literal(dialect.delimiter)}\\r\\n]*+"
        self.field = f"(?s){d}({quoted}|{bare})"
        self.record = f"(?s)^(?:{d}(?:{quoted}|{bare}))++(?:\\r\\n|\\n|\\r)?\\z"
        self.header = f"(?s)^(?:{quoted}|{bare})(?:{d}(?:{quoted}|{bare}))*+(?:\\r\\n|\\n|\\r)"


def literal(character: str) -> str:
    """The character in a pattern, inside brackets or out of them."""
    return {"\t": "\\t"}.get(character, _SPECIAL.sub(r"\\\1", character))


def decode_csv(text: Column, fields: tuple[Field, ...], dialect: CsvDialect) -> Column:
    """STRUCT<row, faults, unknown, extra> of one payload's text, which is valid UTF-8.

    Only the line end after the last field is cut.
    """
    grammar = _Grammar(dialect)
    body = F.regexp_replace(text, grammar.header, "") if dialect.header else text
    lead = F.lit(dialect.delimiter)

    def of_line(line: Column) -> Column:
        tokens = F.regexp_extract_all(line, F.lit(grammar.field), F.lit(1))
        return F.when(
            ~line.rlike(grammar.record),
            rejected(Code.MALFORMED_CSV, fields, expected="one line by RFC 4180"),
        ).otherwise(bind(tokens, lambda found: _of_tokens(found, fields, dialect)))

    return bind(F.concat(lead, body), of_line)


def _of_tokens(tokens: Column, fields: tuple[Field, ...], dialect: CsvDialect) -> Column:
    wrong = rejected(
        Code.COLUMN_COUNT,
        fields,
        expected=f"{len(fields)} fields",
        found=F.concat(F.size(tokens).cast("string"), F.lit(" fields")),
    )
    results = [_field(F.get(tokens, F.lit(i)), f, dialect).alias(f"f{i}") for i, f in enumerate(fields)]
    return F.when(F.size(tokens) != len(fields), wrong).otherwise(
        bind(F.struct(*results), lambda done: _row(done, fields))
    )


def _row(done: Column, fields: tuple[Field, ...]) -> Column:
    parts = [done.getField(f"f{i}") for i in range(len(fields))]
    return record(
        F.struct(*[p.getField("value").alias(f.column) for p, f in zip(parts, fields, strict=True)]),
        F.concat(*[p.getField("faults") for p in parts]),
        F.lit(0),
        F.lit(None),
        no_tokens(fields),
    )


def _field(token: Column, field: Field, dialect: CsvDialect) -> Column:
    shape = field.shape
    quoted = token.startswith(dialect.quote)
    inner = F.substr(token, F.lit(2), F.length(token) - 2)
    q = dialect.quote
    if dialect.escape and dialect.escape != q:
        plain = F.regexp_replace(inner, f"(?s){literal(dialect.escape)}(.)", "$1")
    else:
        plain = F.replace(inner, F.lit(q + q), F.lit(q))
    text = F.when(quoted, plain).otherwise(token)
    missing = fault(
        Code.REQUIRED_FIELD, field=F.lit(field.name), expected=f"{shape.expected} NOT NULL", found=None
    )
    if field.default is not None:
        nothing = parsed(F.lit(field.default).cast(shape.data_type), no_faults())
    else:
        nothing = parsed(null(shape.data_type), F.array(missing) if field.required else no_faults())

    def result(outcome: Column, shown: Column) -> Column:
        wrong = fault(
            outcome.getField("code"),
            field=F.lit(field.name),
            expected=shape.expected,
            found=None if shape.hides else shown,
        )
        return parsed(
            outcome.getField("value"),
            F.when(outcome.getField("code").isNull(), no_faults()).otherwise(F.array(wrong)),
        )

    is_null = ~quoted & (token == dialect.null_text)
    return F.when(is_null, nothing).otherwise(
        bind(text, lambda t: bind(from_text(t, shape), lambda o: result(o, t)))
    )
